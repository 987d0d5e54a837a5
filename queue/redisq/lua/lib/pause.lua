-- Whether a queue is paused, as it is kept: '1', until when in us, or ''. See read_pause in queue.lua.

local function set_pause(q, kept)
  set(q, 'pause', kept)
  read_pause(q, kept)
end
