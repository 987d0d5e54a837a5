-- needs: pace
--
-- How departures change a queue's bucket: they are granted, given back, or lost by a server.

-- takeAt takes a departure at d from the bucket alone, as of an instant.
local function takeAt(q, d, at, cost)
  if q.tat < at then q.tat, q.rem = at, 0 end
  q.tat, q.rem = advance(q, q.tat, q.rem, cost)
  q.last, q.lastCost = d, cost
end

-- take grants a departure of a job at d if that is within the horizon. If it returns nil and true, the job may depart a
-- little later, when budgets have enough credit.
local function take(q, cost, d, job)
  if d > now + HORIZON then return nil end
  local bill = q.limits and { q = q, cost = cost, job = job }
  if bill and not limits.hasCredit(q, d, bill) then return nil, true end
  if bill and not limits.affords(q, d, bill) then return nil end
  reign.shift(q)
  if q.stop then receiver.noteDeparture(q, d) end
  if bill then return limits.takeAll(q, d, bill) end
  takeAt(q, d, bucketReadyAt(q) < d and d or now, cost)
  return d
end

local function giveBack(q)
  if q.limits then limits.giveBackPaces(q) end
  if q.lastCost == 0 or q.n == 0 then
    q.lastCost = 0
    return
  end
  q.tat = q.tat - q.lastCost * floor(q.d / q.n)
  q.rem = q.rem - q.lastCost * (q.d % q.n)
  if q.rem < 0 then
    local borrow = floor((-q.rem + q.n - 1) / q.n)
    q.tat = q.tat - borrow
    q.rem = q.rem + borrow * q.n
  end
  q.lastCost = 0
end

-- delay delays a bucket after a restart, because the server may have lost writes. What was granted before has departed
-- by at: the start of the server and a horizon. cost is the highest that a job may have had.
local function delay(q, at, cost)
  if q.limits then limits.delayPaces(q, at, cost) end
  local whole, rest = burstParts(q)
  if rest > 0 then whole = whole + 1 end
  local tat, rem = advance(q, at + whole, 0, cost)
  if q.tat < tat or (q.tat == tat and q.rem < rem) then q.tat, q.rem, q.last, q.lastCost = tat, rem, at, cost end
end

-- cover extends the delay of a queue (see delay) for a job that costs more than coveredCost. A job of the same cost may
-- have been granted before and be lost, and the two would depart too close together (invariant 4).
local function cover(q, cost)
  local more = cost - q.coveredCost
  if q.limits then limits.coverPaces(q, more) end
  q.tat, q.rem = advance(q, q.tat, q.rem, more)
  q.lastCost = q.lastCost + more
  set(q, 'lastFence', 0) -- the last departure can no longer be given back: it is not the last any more
  set(q, 'coveredCost', cost)
end

local function saveBucket(q)
  set(q, 'tat', q.tat)
  set(q, 'rem', q.rem)
  set(q, 'last', q.last)
  set(q, 'lastCost', q.lastCost)
  if q.limits then limits.saveLimits(q) end
end

local heldAtFirst = {} -- answers of heldByRate, by number of the queue

-- heldByRate reports whether the bucket of a queue delays its next job, as of the first call for the queue. What is
-- given back later does not count. Nothing else that may delay the job is looked at: limits, the parent, stops, pauses
-- and lanes.
local function heldByRate(q)
  if heldAtFirst[q.nr] == nil then
    bounded(q)
    heldAtFirst[q.nr] = bucketReadyAt(q) > now
  end
  return heldAtFirst[q.nr]
end
