-- needs: request, pace
-- gives: apart, apartIn, shift, shiftOne, notePaced, noteReign
--
-- A client that does not know the engine's clock well starts all of its jobs late by as much, which nobody knows. That
-- changes nothing between its own starts. Between one of them and a later one of another client, it would take away
-- from their distance. So of a bucket whose last departure such a client had, others are granted the next one that much
-- later, and the client itself when it knows the clock better: the window law holds however far away a drainer is.
--
-- A reign is when an uncertain client had paced departures: {client, first, latest, by}, by its uncertainty; the client
-- is '' if it were several. M.reigns has them, the latest last.

local MOST_REIGNS, REIGN_FOR, REIGN_JITTER = 4, 500, 500

local reigns = {} -- those by which this client's departures are put off
for _, r in ipairs(M.reigns or {}) do
  if r[3] + REIGN_FOR * r[4] < now then -- it is over
  elseif r[1] ~= request.client then
    reigns[#reigns + 1] = r
  elseif r[4] - request.uncertainty > REIGN_JITTER then -- its own starts are late by less than they were
    reigns[#reigns + 1] = { r[1], r[2], r[3], r[4] - request.uncertainty }
  end
end

-- noteReign remembers what an uncertain client was granted.
local function noteReign()
  local kept = {}
  for _, r in ipairs(M.reigns or {}) do
    if r[3] + REIGN_FOR * r[4] >= now then kept[#kept + 1] = r end
  end
  M.reigns = kept
  local r = kept[#kept]
  if r and r[1] == request.client and r[4] - request.uncertainty <= REIGN_JITTER then
    r[3], r[4] = max(r[3], request.latest), max(r[4], request.uncertainty)
    return
  end
  kept[#kept + 1] = { request.client, request.first, request.latest, request.uncertainty }
  if #kept > MOST_REIGNS then
    local a, b = kept[1], table.remove(kept, 2)
    kept[1] = { '', min(a[2], b[2]), max(a[3], b[3]), max(a[4], b[4]) }
  end
end

-- notePaced notes that a paced departure was granted.
local function notePaced(d)
  request.first, request.latest = min(request.first or d, d), max(request.latest or d, d)
end

-- laterBy is how much later a bucket counts as it is, because its last departure was that of another, uncertain client.
local function laterBy(b)
  local by = 0
  for _, r in ipairs(reigns) do
    if b.n > 0 and b.last >= r[2] and b.last <= r[3] then by = max(by, r[4]) end
  end
  return by
end

-- apartIn returns d, or when a bucket lets a departure out that counts as later.
local function apartIn(b, d)
  local by = laterBy(b)
  return by > 0 and max(d, bucketReadyAt(b) + by) or d
end

-- apart does so for all buckets of a queue.
local function apart(q, d)
  if not reigns[1] then return d end
  d = apartIn(q, d)
  for _, l in ipairs(q.limits or {}) do
    if l.max == 0 then d = apartIn(l, d) end
  end
  return d
end

local function shiftOne(b)
  local by = laterBy(b)
  b.tat, b.last = b.tat + by, b.last + by
end

-- shift makes buckets later for good that count as later, before the first departure of this client is taken.
local function shift(q)
  if not reigns[1] then return end
  shiftOne(q)
  for _, l in ipairs(q.limits or {}) do
    if l.max == 0 then shiftOne(l) end
  end
end
