-- Shared by all operations, behind names.lua: the clock, and whether the slot is here.

local function raise(code, text) error({ err = code .. ' ' .. text }) end

-- whole raises while the slot is on its way to another node, and neither node has
-- all of the keys. The node that it leaves refuses to speak of a key that it does not
-- have; the one that it comes to would answer for one key, but not for two.
local function whole()
  local here = redis.pcall('EXISTS', B .. '?', B .. '!')
  if type(here) == 'table' then raise('TRYAGAIN', 'the slot of ' .. B .. ' is being moved') end
end

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
