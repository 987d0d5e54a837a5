-- leaky/allowance.go, behind tally.lua and budget.lua.

local BALANCE, BALANCE_BYTES = '>I4I8I4I7I4', 27 -- the numbers that wrote it, tat and rem; then the lows
local LOW, LOW_BYTES = '>I7I6', 13
local OPEN = '>I7I4B' -- of a take that can be corrected: its instant, its charge, and 1 once it was corrected

-- balanceOf returns the budget now, when it was full again, and whether the bounds have changed it.
local function balanceOf(l, text)
  local b = { n = l.second, d = l.third, burst = l.most, tat = now, rem = 0, lows = {} }
  if not text or #text < BALANCE_BYTES then return b, 0 end
  local n, d, burst, tat, rem = unpackStruct(BALANCE, text)
  for at = BALANCE_BYTES + 1, #text, LOW_BYTES do
    b.lows[#b.lows + 1], b.lows[#b.lows + 2] = unpackStruct(LOW, text, at)
  end
  local most, rest = MAX_DEBT, 0
  if n ~= b.n or d ~= b.d or burst ~= b.burst then
    most, rest = span(b, b.burst)
    noteLow(b, now, 0)
  end
  if tat >= now then b.tat, b.rem = tat, min(rem, b.n - 1) end
  if b.tat - now > most or b.tat - now == most and b.rem > rest then
    b.tat, b.rem = now + most, rest
    return b, 0, true
  end
  return b, tat
end

local function written(b)
  local text = pack(BALANCE, b.n, b.d, b.burst, b.tat, b.rem)
  for i = 1, #b.lows, 2 do text = text .. pack(LOW, b.lows[i], b.lows[i + 1]) end
  return text
end

-- settled returns the tally to keep, and the time until it is fresh again.
local function settled(b)
  if b.tat < now then b.tat, b.rem = now, 0 end
  return written(b), b.tat - now + min(b.rem, 1)
end

-- less reports whether a cost is less than what is owed.
local function less(b, cost)
  local whole, part = span(b, cost)
  return whole < b.tat - now or whole == b.tat - now and part < b.rem
end

-- creditLeft returns the highest cost for which there is credit.
local function creditLeft(b)
  local k = min(floor((b.tat - now) * b.n / b.d), b.burst)
  while k > 0 and not less(b, k - 1) do k = k - 1 end
  while k < b.burst and less(b, k) do k = k + 1 end
  return b.burst - k
end

local function ask(l, text, cost)
  local b, till, bounded = balanceOf(l, text)
  local ready = allows(b, cost)
  local allowed = ready <= now
  if allowed then chargeUnits(b, now, cost) end
  return allowed, creditLeft(b), allowed and 0 or ready - now, b.tat - now + min(b.rem, 1),
    (allowed or bounded) and written(b), till
end

-- back does not know the take, so it lowers all lows.
local function back(l, text, cost)
  local b = balanceOf(l, text)
  local whole, rest = span(b, min(cost, b.burst))
  b.tat, b.rem = b.tat - whole, b.rem - rest
  if b.rem < 0 then b.tat, b.rem = b.tat - 1, b.rem + b.n end
  if rest > 0 then whole = whole + 1 end
  if cost > 0 and b.lows[1] then b.lows = { b.lows[#b.lows - 1], max(0, b.lows[2] - whole) } end
  return settled(b)
end

-- noteOpenTake notes an allowed take under its id, so that it can be corrected.
local function noteOpenTake(key, id, cost)
  call('SET', key .. 'c' .. id, pack(OPEN, now, cost, 0), 'PX', lasting(CORRECT_FOR))
end

-- correctTake charges the actual cost of an earlier take. It returns whether the take is known, and unless it was
-- corrected before, what is left, and the time until it is fresh again.
local function correctTake(l, key, text, id, actual)
  local open = redis.pcall('GET', key .. 'c' .. id)
  if type(open) ~= 'string' or #open ~= 12 then return false end
  local at, charged, done = unpackStruct(OPEN, open)
  if now > at + CORRECT_FOR then return false end
  if done == 1 then return true end
  call('SET', key .. 'c' .. id, pack(OPEN, at, charged, 1), 'KEEPTTL')
  local b = balanceOf(l, text)
  recharge(b, at, charged, actual)
  return true, settled(b)
end
