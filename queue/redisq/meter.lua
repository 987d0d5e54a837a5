-- leaky/meter.go, behind tally.lua: us and rest are what is owed.

local function times(l, k)
  local rest = k * l.part
  return k * l.whole + floor(rest / l.n), rest % l.n
end

local function read(l, s, value)
  local n = l.second
  if not l.n then
    l.n, l.whole, l.part = n, floor(l.third / n), l.third % n
    l.us, l.rest = times(l, l.most)
  end
  s.us, s.rest = 0, 0
  if not value or #value ~= 11 then return end
  local tat, rem = unpack_('>I7I4', value)
  if tat < now then return end
  local us, rest = tat - now, min(rem, n - 1)
  if us > l.us or us == l.us and rest > l.rest then us, rest, s.settled = l.us, l.rest, true end
  s.us, s.rest = us, rest
end

-- told is how many units are left when so much is owed, and the time until nothing is.
local function told(l, us, rest)
  local k = floor(us * l.n / l.third)
  local whole, part = times(l, k)
  while whole < us or whole == us and part < rest do
    k = k + 1
    whole, part = times(l, k)
  end
  return l.most - k, rest > 0 and us + 1 or us
end

local function ask(l, s, cost)
  local us, rest = times(l, cost)
  us, rest = us + s.us, rest + s.rest
  if rest >= l.n then us, rest = us + 1, rest - l.n end
  if us < l.us or us == l.us and rest <= l.rest then
    local remaining, reset = told(l, us, rest)
    return true, remaining, 0, reset, us, rest
  end
  local remaining, reset = told(l, s.us, s.rest)
  return false, remaining, us - l.us + (rest > l.rest and 1 or 0), reset
end

local function take(_, s, _, _, us, rest) s.us, s.rest = us, rest end

local function back(l, s, cost)
  local us, rest = times(l, min(cost, l.most))
  us, rest = s.us - us, s.rest - rest
  if rest < 0 then us, rest = us - 1, rest + l.n end
  if us < 0 then us, rest = 0, 0 end
  s.us, s.rest = us, rest
end

local function anew(s) s.us, s.rest = 0, 0 end
local function ends(_, s) return s.rest > 0 and s.us + 1 or s.us end
local function write(_, s, px) call('SET', s.key, pack('>I7I4', now + s.us, s.rest), 'PX', px) end
