-- setPause changes the pause of a queue, as it is kept: '1', until when in us, or ''. See readPause in queue.lua.

local function setPause(q, kept)
  set(q, 'pause', kept)
  readPause(q, kept)
end
