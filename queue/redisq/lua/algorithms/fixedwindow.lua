-- leaky/fixedwindow.go, behind tally.lua.

local WINDOW = '>I7I4' -- its end, used in it

local function usedIn(l, text)
  local endAt = now + l.second - now % l.second
  if not text or #text ~= 11 then return 0, endAt end
  local of, used = unpackStruct(WINDOW, text)
  if of ~= endAt and of ~= endAt + l.second then used = 0 end
  return min(used, MAX_LIMIT), endAt, of > endAt
end

local function ask(l, text, cost)
  local used, endAt, settled = usedIn(l, text)
  local left = endAt - now
  local was = used > 0 and not settled and endAt or 0
  if used + cost <= l.most then return true, l.most - used - cost, 0, left, pack(WINDOW, endAt, used + cost), was end
  return false, max(0, l.most - used), left, used > 0 and left or 0, settled and pack(WINDOW, endAt, used), was
end

local function back(l, text, cost)
  local used, endAt = usedIn(l, text)
  used = used - min(cost, used)
  return pack(WINDOW, endAt, used), used > 0 and endAt - now or 0
end
