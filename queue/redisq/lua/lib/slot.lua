-- Whether the partition's slot is here.

local function raise(code, text) error({ err = code .. ' ' .. text }) end

-- check_slot raises while the slot is on its way to another node, and neither node has
-- all of the keys. The node that it leaves refuses to speak of a key that it does not
-- have; the one that it comes to would answer for one key, but not for two.
local function check_slot()
  local here = redis.pcall('EXISTS', B .. '?', B .. '!')
  if type(here) == 'table' then raise('TRYAGAIN', 'the slot of ' .. B .. ' is being moved') end
end
