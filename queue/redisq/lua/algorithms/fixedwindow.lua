-- leaky/fixedwindow.go, behind tallies.lua.

local WINDOW = '>I7I4' -- its end, used in it

local function used_in(l, text)
  local end_at = now + l.second - now % l.second
  if not text or #text ~= 11 then return 0, end_at end
  local of, used = unpack_(WINDOW, text)
  if of ~= end_at and of ~= end_at + l.second then used = 0 end
  return min(used, MAX_LIMIT), end_at, of > end_at
end

local function ask(l, text, cost)
  local used, end_at, settled = used_in(l, text)
  local left = end_at - now
  local was = used > 0 and not settled and end_at or 0
  if used + cost <= l.most then return true, l.most - used - cost, 0, left, pack(WINDOW, end_at, used + cost), was end
  return false, max(0, l.most - used), left, used > 0 and left or 0, settled and pack(WINDOW, end_at, used), was
end

local function back(l, text, cost)
  local used, end_at = used_in(l, text)
  used = used - min(cost, used)
  return pack(WINDOW, end_at, used), used > 0 and end_at - now or 0
end
