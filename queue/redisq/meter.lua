-- leaky/meter.go, behind tally.lua: us and rest are what is owed, n the rate's numerator, second.

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

-- owed is what is owed now, and whether it was more than can be.
local function owed(l, text)
  if not l.whole then know(l) end
  if not text or #text ~= 11 then return 0, 0 end
  local tat, rest = unpack_(OWED, text)
  if tat < now then return 0, 0 end
  local us, rest = tat - now, min(rest, l.second - 1)
  if us > l.us or us == l.us and rest > l.rest then return l.us, l.rest, true end
  return us, rest
end

-- told is how many units are left when so much is owed, and the time until nothing is.
local function told(l, us, rest)
  local k = floor(us * l.second / l.third)
  local whole, part = times(l, k)
  while whole < us or whole == us and part < rest do
    k = k + 1
    whole, part = times(l, k)
  end
  return l.most - k, rest > 0 and us + 1 or us
end

local function ask(l, text, cost)
  local had, had_rest, settled = owed(l, text)
  local us, rest = times(l, cost)
  us, rest = us + had, rest + had_rest
  if rest >= l.second then us, rest = us + 1, rest - l.second end
  if us < l.us or us == l.us and rest <= l.rest then
    local remaining, reset = told(l, us, rest)
    return true, remaining, 0, reset, pack(OWED, now + us, rest)
  end
  local remaining, reset = told(l, had, had_rest)
  return false, remaining, us - l.us + (rest > l.rest and 1 or 0), reset, settled and pack(OWED, now + had, had_rest)
end

local function back(l, text, cost)
  local had, had_rest = owed(l, text)
  local us, rest = times(l, min(cost, l.most))
  us, rest = had - us, had_rest - rest
  if rest < 0 then us, rest = us - 1, rest + l.second end
  if us < 0 then us, rest = 0, 0 end
  return pack(OWED, now + us, rest), rest > 0 and us + 1 or us
end
