-- The arithmetic of leaky/pacer.go on the bucket in a queue's fields: tat and rem, last and lastCost, n, d and burst. n
-- and d are 0 if the rate is unlimited.

local function advance(q, tat, rem, cost)
  if q.n == 0 then return tat, rem end
  rem = rem + cost * (q.d % q.n)
  return tat + cost * floor(q.d / q.n) + floor(rem / q.n), rem % q.n
end

local function burstParts(q) return advance(q, 0, 0, q.burst - 1) end

-- bounded brings a bucket's state within its bounds. latest, by default a horizon after now, is the last possible
-- departure.
local function bounded(q, latest)
  q.last = min(q.last, latest or now + HORIZON)
  if q.n == 0 then
    q.rem = 0
    q.tat = min(q.tat, q.last)
    return
  end
  q.rem = min(max(q.rem, 0), q.n - 1)
  q.lastCost = min(max(q.lastCost, 0), MAX_COST)
  local whole, rest = burstParts(q)
  local tat, rem = advance(q, q.last + whole, rest, q.lastCost)
  if q.tat > tat or (q.tat == tat and q.rem > rem) then q.tat, q.rem = tat, rem end
end

-- bucketReadyAt returns when the bucket alone lets the next job out, which may be in the past.
local function bucketReadyAt(q)
  if q.n == 0 then return q.tat end
  local whole, rest = burstParts(q)
  local d = q.tat - whole
  if q.rem > rest then d = d + 1 end
  return d
end

-- readyAt returns when the bucket and all limits let the next job out, as seen from an instant (by default now), the
-- queue's stop is over and its hours are open. The stop of a parent delays only its own jobs.
local function readyAt(q, at)
  local d = bucketReadyAt(q)
  if q.limits then d = limits.allReadyAt(q, d, at) end
  if q.stop and q.group ~= q then d = max(d, q.stop) end
  if q.hours then d = max(d, limits.openSince(q.hours, max(d, at or now))) end
  return d
end

local function nextDeparture(q)
  bounded(q)
  return max(now, readyAt(q))
end
