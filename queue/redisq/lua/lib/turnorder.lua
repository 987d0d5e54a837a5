-- gives: before, insert, unread, pick
--
-- The order in which lanes, or the members of a group, take their turns in a visit. Each has at, its tag or until when
-- it rests, and tie, by which ties are broken.

-- less compares bytes; Lua would compare by the server's locale.
local function less(a, b)
  for i = 1, 16 do
    local x, y = byte(a, i), byte(b, i)
    if x ~= y then return (x or 0) < (y or 0) end
  end
  return false
end

local function before(a, b) return a.at < b.at or a.at == b.at and less(a.tie, b.tie) end

-- insert keeps a list sorted, with the first at the end.
local function insert(list, l)
  local low, high = 1, #list + 1
  while low < high do
    local middle = floor((low + high) / 2)
    if before(l, list[middle]) then low = middle + 1 else high = middle end
  end
  table.insert(list, low, l)
end

-- unread returns the first of the stored ready ones, under the visit's key, that the visit has not come to. Nothing is
-- written before the visit ends, so that ranks stand.
local function unread(v)
  if v.at > #v.unread and not v.noMore then
    local found = call('ZRANGE', v.key, v.rank, v.rank + 31, 'WITHSCORES')
    v.unread, v.at, v.rank, v.noMore = {}, 1, v.rank + #found / 2, #found < 64
    for i = 1, #found, 2 do v.unread[#v.unread + 1] = { tie = found[i], at = tonumber(found[i + 1]) } end
  end
  return v.unread[v.at]
end

-- pick removes and returns the first of all that are ready.
local function pick(v)
  local new, old = unread(v), v.ready[#v.ready]
  if new and not (old and before(old, new)) then
    v.at = v.at + 1
    return v:came(new.tie, new.at)
  end
  v.ready[#v.ready] = nil
  return old
end
