-- needs: request, pace
-- gives: apart, apartIn, shift, shiftOne, shiftBudget, notePaced, noteReign
--
-- A client that does not know the engine's clock well starts its jobs late by an unknown, equal delay. The distances
-- between its own starts stay the same. But the next job of another client could start too soon after one of them. So a
-- bucket whose last departure was granted to an uncertain client counts as that much later for other clients, and for
-- the client itself once it knows the clock better. The window law holds however far away a drainer is.
--
-- A reign is a period in which one uncertain client was granted paced departures: {clock, first, latest, by}; by is its
-- uncertainty, and clock is '' if there were several. M.reigns has them, the latest last.

local MOST_REIGNS, REIGN_JITTER = 4, 500

local reigns = {} -- reigns that delay this client's departures
for _, r in ipairs(M.reigns or {}) do
  if r[REIGN_CLOCK] ~= request.clock then
    reigns[#reigns + 1] = r
  elseif r[REIGN_BY] - request.uncertainty > REIGN_JITTER then -- its own starts are late by less than they were
    reigns[#reigns + 1] = { r[REIGN_CLOCK], r[REIGN_FIRST], r[REIGN_LATEST], r[REIGN_BY] - request.uncertainty }
  end
end

-- noteReign remembers what an uncertain client was granted.
local function noteReign()
  local kept = M.reigns or {}
  M.reigns = kept
  local r = kept[#kept]
  if r and r[REIGN_CLOCK] == request.clock and r[REIGN_BY] - request.uncertainty <= REIGN_JITTER then
    r[REIGN_LATEST], r[REIGN_BY] = max(r[REIGN_LATEST], request.latest), max(r[REIGN_BY], request.uncertainty)
    return
  end
  kept[#kept + 1] = { request.clock, request.first, request.latest, request.uncertainty }
  if #kept > MOST_REIGNS then
    local a, b = kept[1], table.remove(kept, 2)
    kept[1] = { '', min(a[REIGN_FIRST], b[REIGN_FIRST]), max(a[REIGN_LATEST], b[REIGN_LATEST]),
      max(a[REIGN_BY], b[REIGN_BY]) }
  end
end

-- notePaced notes that a paced departure was granted.
local function notePaced(d)
  request.first, request.latest = min(request.first or d, d), max(request.latest or d, d)
end

-- laterBy returns how much later a bucket counts because its last departure was another, uncertain client's.
local function laterBy(b)
  local by = 0
  for _, r in ipairs(reigns) do
    if b.n > 0 and b.last >= r[REIGN_FIRST] and b.last <= r[REIGN_LATEST] then by = max(by, r[REIGN_BY]) end
  end
  return by
end

-- apartIn returns the next departure, not before d, that a bucket allows when it counts as later.
local function apartIn(b, d)
  local by = laterBy(b)
  return by > 0 and max(d, bucketReadyAt(b) + by) or d
end

-- apart is apartIn for all buckets of a queue.
local function apart(q, d)
  if not reigns[1] then return d end
  d = apartIn(q, d)
  for _, l in ipairs(q.limits or {}) do
    if l.pace then d = apartIn(l, d) end
  end
  return d
end

local function shiftOne(b)
  local by = laterBy(b)
  b.tat, b.last = b.tat + by, b.last + by
end

-- shift makes the buckets that count as later so for good, before this client takes its first departure.
local function shift(q)
  if not reigns[1] then return end
  shiftOne(q)
  for _, l in ipairs(q.limits or {}) do
    if l.pace then shiftOne(l) end
  end
end

-- shiftBudget is shift for a budget, before its credit is looked at.
local function shiftBudget(l)
  local by = laterBy(l)
  if by > 0 then l.tat, l.last = l.tat + by, 0 end
end
