-- The arithmetic of leaky/budget.go, for limits of queues (units.lua) and for rules (algorithms/budget.lua). Of a
-- budget, n and d are its rate, tat is when the whole burst is available, rem the rest in n-ths of a microsecond, and
-- lows an instant and how much was in use then, for each low.

local MAX_DEBT, HALF, MAX_LOWS = 365 * 86400 * SECOND, 2 ^ 15, 8

-- span returns cost x T in whole microseconds, at most MAX_DEBT, and the rest in n-ths of one. The product may exceed
-- 2^53, so it is split.
local function span(l, cost)
  local each, part = floor(l.d / l.n), l.d % l.n
  if cost * each >= MAX_DEBT then return MAX_DEBT, 0 end
  local high = floor(cost / HALF) * part
  local low = high % l.n * HALF + cost % HALF * part
  local whole = cost * each + floor(high / l.n) * HALF + floor(low / l.n)
  if whole >= MAX_DEBT then return MAX_DEBT, 0 end
  return whole, low % l.n
end

-- allows returns from when on there is credit for a departure that needs so much.
local function allows(l, need)
  local whole, rest = span(l, l.burst - need)
  return l.tat - whole + (l.rem > rest and 1 or 0)
end

-- noteLow notes how much was in use before a charge.
local function noteLow(l, at, used)
  local lows, n = l.lows, #l.lows
  if n > 0 then at = max(at, lows[n - 1]) end
  while n > 0 and lows[n] >= used do
    lows[n], lows[n - 1], n = nil, nil, n - 2
  end
  if n == 2 * MAX_LOWS then
    lows[4], n = lows[2], n - 2
    table.remove(lows, 1)
    table.remove(lows, 1)
  end
  lows[n + 1], lows[n + 2] = at, used
end

-- lower lowers the lows from an index on.
local function lower(l, since, by)
  local old, n = l.lows, #l.lows
  if since > n then return end
  local keep, lows = since - 1, {}
  while keep > 0 and old[keep] >= old[since + 1] - by do keep = keep - 2 end
  for i = 1, keep do lows[i] = old[i] end
  for i = since, n, 2 do
    lows[#lows + 1] = old[i]
    lows[#lows + 1] = old[i + 1] - by
  end
  l.lows = lows
end

-- chargeUnits adds a cost as of an instant.
local function chargeUnits(l, at, cost)
  if cost == 0 then return end
  noteLow(l, at, max(0, l.tat - at))
  if l.tat < at then l.tat, l.rem = at, 0 end
  local whole, rest = span(l, cost)
  rest = rest + l.rem
  if rest >= l.n then whole, rest = whole + 1, rest - l.n end
  l.tat, l.rem = l.tat + whole, rest
  if l.tat >= at + MAX_DEBT then l.tat, l.rem = at + MAX_DEBT, 0 end
end

-- recharge charges actual in place of the charge for a departure at d. A refund is bounded by the lows after d.
local function recharge(l, d, charged, actual)
  if actual >= charged then return chargeUnits(l, now, actual - charged) end
  local lows, since = l.lows, #l.lows + 1
  while since > 1 and lows[since - 2] > d do since = since - 2 end
  local whole, rest = span(l, charged - actual)
  if lows[since] and whole >= lows[since + 1] then whole, rest = lows[since + 1], 0 end
  l.tat, l.rem = l.tat - whole, l.rem - rest
  if l.rem < 0 then l.tat, l.rem = l.tat - 1, l.rem + l.n end
  lower(l, since, rest > 0 and whole + 1 or whole)
end
