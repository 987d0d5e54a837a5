-- Shared by all operations, behind names.lua: the clock.

local now -- the engine's, of which there is one in a script

-- clock sets now, of the instant at which it was last and the offset that it had. It returns the offset that
-- it has. Invariant 9: a clock that was set back is held off by an offset that grows.
local function clock(last, offset)
  local t = tonumber(ARGV[1])
  if not t then
    local time = call('TIME')
    t = time[1] * SECOND + time[2]
  end
  now = max(last, t + offset)
  return now - t
end
