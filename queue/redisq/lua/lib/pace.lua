-- The arithmetic of leaky/pacer.go on the bucket in a queue's fields: tat and rem, last and lc (its last departure and
-- what that cost), n, d and b (rate and burst). n and d are 0 when the rate is unlimited.

local function advance(q, tat, rem, cost)
  if q.n == 0 then return tat, rem end
  rem = rem + cost * (q.d % q.n)
  return tat + cost * floor(q.d / q.n) + floor(rem / q.n), rem % q.n
end

local function burst_parts(q) return advance(q, 0, 0, q.b - 1) end

-- bounded brings a bucket's state within what it can be at an instant a horizon before latest: now, unless said.
local function bounded(q, latest)
  q.last = min(q.last, latest or now + HORIZON)
  if q.n == 0 then
    q.rem = 0
    q.tat = min(q.tat, q.last)
    return
  end
  q.rem = min(max(q.rem, 0), q.n - 1)
  q.lc = min(max(q.lc, 0), MAX_COST)
  local whole, rest = burst_parts(q)
  local tat, rem = advance(q, q.last + whole, rest, q.lc)
  if q.tat > tat or (q.tat == tat and q.rem > rem) then q.tat, q.rem = tat, rem end
end

-- bucket_ready_at is when the bucket alone lets the next job out, whether or not that is over.
local function bucket_ready_at(q)
  if q.n == 0 then return q.tat end
  local whole, rest = burst_parts(q)
  local d = q.tat - whole
  if q.rem > rest then d = d + 1 end
  return d
end

-- ready_at is when the bucket and all limits let the next job out, as seen from an instant (now, unless said), and the
-- queue's stop is over. The stop of a parent holds up its own jobs only.
local function ready_at(q, at)
  local d = bucket_ready_at(q)
  if q.limits then d = limits.all_ready_at(q, d, at) end
  if q.stop and q.group ~= q then d = max(d, q.stop) end
  return d
end

local function next_departure(q)
  bounded(q)
  return max(now, ready_at(q))
end

-- take_at takes from the bucket alone, as of an instant, for a departure at d.
local function take_at(q, d, at, cost)
  if q.tat < at then q.tat, q.rem = at, 0 end
  q.tat, q.rem = advance(q, q.tat, q.rem, cost)
  q.last, q.lc = d, cost
end

-- take grants a departure within the horizon, or returns nil.
local function take(q, cost)
  local d = next_departure(q)
  if d > now + HORIZON then return nil end
  if q.limits and not limits.allows(q, d, cost) then return nil end
  if q.stop then receiver.note_departure(q, d) end
  if q.limits then return limits.take_all(q, d, cost) end
  take_at(q, d, now, cost)
  return d
end

local function give_back(q)
  if q.limits then limits.give_back_paces(q) end
  if q.lc == 0 or q.n == 0 then
    q.lc = 0
    return
  end
  q.tat = q.tat - q.lc * floor(q.d / q.n)
  q.rem = q.rem - q.lc * (q.d % q.n)
  if q.rem < 0 then
    local borrow = floor((-q.rem + q.n - 1) / q.n)
    q.tat = q.tat - borrow
    q.rem = q.rem + borrow * q.n
  end
  q.lc = 0
end

-- delay puts off what a server that may have lost writes could grant too soon: whatever was granted before it started
-- has departed by then and a horizon, which is at. cost is the highest that a job may have had.
local function delay(q, at, cost)
  if q.limits then limits.delay_paces(q, at, cost) end
  local whole, rest = burst_parts(q)
  if rest > 0 then whole = whole + 1 end
  local tat, rem = advance(q, at + whole, 0, cost)
  if q.tat < tat or (q.tat == tat and q.rem < rem) then q.tat, q.rem, q.last, q.lc = tat, rem, at, cost end
end

-- cover makes the delay of a queue (see delay) good for a job costlier than hc, the cost for which it was made: a job
-- as costly may have been granted before and be lost, and the two would stand too near together (invariant 4).
local function cover(q, cost)
  local more = cost - q.hc
  if q.limits then limits.cover_paces(q, more) end
  q.tat, q.rem = advance(q, q.tat, q.rem, more)
  q.lc = q.lc + more
  set(q, 'lf', 0) -- the slot granted last can be given back no more: it is not the last any longer
  set(q, 'hc', cost)
end

local function save_bucket(q)
  set(q, 'tat', q.tat)
  set(q, 'rem', q.rem)
  set(q, 'last', q.last)
  set(q, 'lc', q.lc)
  if q.limits then limits.save_limits(q) end
end

-- held_by_rate reports whether the rate alone holds a queue up, as it did when it was asked first.
local function held_by_rate(q)
  if q.held_by_rate == nil then
    bounded(q)
    q.held_by_rate = bucket_ready_at(q) > now
  end
  return q.held_by_rate
end
