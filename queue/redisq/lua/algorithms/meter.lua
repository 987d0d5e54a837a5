-- leaky/meter.go, behind tally.lua: us and rest are the debt, n the rate's numerator, second.

local OWED = '>I7I4'

local function times(l, k)
  local parts, n = k * l.part, l.second
  local rest = parts % n
  return k * l.whole + (parts - rest) / n, rest
end

local function know(l)
  l.whole, l.part = floor(l.third / l.second), l.third % l.second
  l.us, l.rest = times(l, l.most)
end

-- owed returns the debt now, when it would be paid, and whether it was more than there can be.
local function owed(l, text)
  if not l.whole then know(l) end
  if not text or #text ~= 11 then return 0, 0, 0 end
  local tat, rest = unpackStruct(OWED, text)
  if tat < now then return 0, 0, tat end
  local us, rest = tat - now, min(rest, l.second - 1)
  if us > l.us or us == l.us and rest > l.rest then return l.us, l.rest, 0, true end
  return us, rest, tat
end

-- untilNone returns the time until nothing is owed.
local function untilNone(us, rest) return rest > 0 and us + 1 or us end

-- units returns how many intervals such a debt has begun.
local function units(l, us, rest)
  local parts = us * l.second + rest
  if parts < 2 ^ 53 then return ceil(parts / l.third) end -- exact, as all three are whole
  local k = floor(us * l.second / l.third)
  local whole, part = times(l, k)
  while whole < us or whole == us and part < rest do
    k = k + 1
    whole, part = times(l, k)
  end
  return k
end

local function ask(l, text, cost)
  local had, hadRest, till, settled = owed(l, text)
  local us, rest = times(l, cost)
  us, rest = us + had, rest + hadRest
  if rest >= l.second then us, rest = us + 1, rest - l.second end
  if us < l.us or us == l.us and rest <= l.rest then
    return true, l.most - units(l, us, rest), 0, untilNone(us, rest), pack(OWED, now + us, rest), till
  end
  return false, l.most - units(l, had, hadRest), us - l.us + (rest > l.rest and 1 or 0), untilNone(had, hadRest),
    settled and pack(OWED, now + had, hadRest), till
end

local function back(l, text, cost)
  local had, hadRest = owed(l, text)
  local us, rest = times(l, min(cost, l.most))
  us, rest = had - us, hadRest - rest
  if rest < 0 then us, rest = us - 1, rest + l.second end
  if us < 0 then us, rest = 0, 0 end
  return pack(OWED, now + us, rest), untilNone(us, rest)
end
