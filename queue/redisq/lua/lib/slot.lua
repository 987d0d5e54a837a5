-- Whether the partition's slot is here, and its most used keys are ours.

local function raise(code, text) error({ err = code .. ' ' .. text }) end

-- checkSlot raises while the slot is on its way to another node, and neither node has all of the keys: the node that
-- it leaves refuses to speak of a key that it does not have, here B?; the one that it comes to would answer for one
-- key, but not for two. The same command looks at the agenda, the timers and the leases, and at no more than their
-- types, as it finds one set empty. It takes a plain set for a sorted one, so each is looked at again before it is
-- written (see checkKeys).
local function checkSlot()
  local here = redis.pcall('ZINTERCARD', '4', B .. '?', B .. 'a', B .. 's', B .. 'l')
  if type(here) ~= 'table' then return end
  if string.find(here.err, '^WRONGTYPE') then error(here) end
  raise('TRYAGAIN', 'the slot of ' .. B .. ' is being moved')
end
