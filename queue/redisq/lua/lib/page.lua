-- Where a page begins in a sorted set, or in a list of ended jobs.

-- comesAfter reports whether a comes after b in byte order, which is that of Redis. Lua would compare by the server's
-- locale.
local function comesAfter(a, b)
  for i = 1, min(#a, #b) do
    local x, y = byte(a, i), byte(b, i)
    if x ~= y then return x > y end
  end
  return #a > #b
end

-- rankAfter returns the rank of the first member of a set behind a place, whether or not a member still has that place.
local function rankAfter(key, score, member)
  local low = call('ZCOUNT', key, '-inf', string.format('(%.0f', score))
  local high = call('ZCOUNT', key, '-inf', string.format('%.0f', score))
  while low < high do
    local middle = floor((low + high) / 2)
    if comesAfter(call('ZRANGE', key, middle, middle)[1], member) then high = middle else low = middle + 1 end
  end
  return low
end

-- lanesAfter iterates over the lanes of a queue behind one, reading a few at a time.
local function lanesAfter(q, lane)
  local found, at = {}, 0
  return function()
    if not q.laned then return nil end
    at = at + 1
    if at > #found then
      found, at = call('ZRANGEBYLEX', B .. 'u' .. q.nr, '(' .. lane, '+', 'LIMIT', 0, 50), 1
    end
    lane = found[at] or lane
    return found[at]
  end
end

-- firstAt returns the index of the first job that ended at an instant or later.
local function firstAt(list, instant)
  local low, high = 0, call('LLEN', list)
  while low < high do
    local middle = floor((low + high) / 2)
    if unpackStruct('>I7', call('LINDEX', list, middle)) >= instant then high = middle else low = middle + 1 end
  end
  return low
end
