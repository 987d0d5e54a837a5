-- Whether the partition's slot is on this node, and its most used keys have the right types.

local function raise(code, text) error({ err = code .. ' ' .. text }) end

-- checkSlot raises while the slot is moving to another node, and neither node has all of the keys. The node that it
-- leaves refuses commands with a key that it does not have, here B?. The node to which it moves would answer for one
-- key, but not for two. The same command checks the types of the agenda, the timers and the leases, and reads no more,
-- because one set is empty. It takes a plain set for a sorted one, so each is checked again before it is written (see
-- checkKeys).
local function checkSlot()
  local here = redis.pcall('ZINTERCARD', '4', B .. '?', B .. 'a', B .. 's', B .. 'l')
  if type(here) ~= 'table' then return end
  if string.find(here.err, '^WRONGTYPE') then error(here) end
  raise('TRYAGAIN', 'the slot of ' .. B .. ' is being moved')
end
