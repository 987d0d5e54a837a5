-- needs: overflow
--
-- How much room a queue has, and when a refused caller may find some.

-- isPaused reports whether a queue or its parent is paused; isPausedForGood, whether a pause has no known end.
local function isPaused(q) return q.paused or q.group and q.group.paused end

local function isPausedForGood(q)
  local g = q.group
  return q.paused and not q.pausedUntil or g and g.paused and not g.pausedUntil
end

-- longestInterval returns the longest T among the paces of a queue itself, rounded up; 0 if it has none.
local function longestInterval(q)
  local T = q.n > 0 and ceil(q.d / q.n) or 0
  for _, l in ipairs(q.limits or {}) do
    if l.pace then T = max(T, ceil(l.d / l.n)) end
  end
  return T
end

-- boundDeferredBytes returns what deferred jobs take of max_bytes.
local function boundDeferredBytes(q)
  if q.deferred == 0 or q.maxBytes == 0 then return 0 end
  loadOverflow(q)
  return q.deferredMaxBytes > 0 and 0 or q.deferredBytes
end

-- markBytes returns how many bytes are for readmitted jobs, as the mark is how many places are.
local function markBytes(q) return floor(byteLimit(q) * q.mark / q.capacity) end

-- fitsReadmission reports whether a job of so many bytes may be readmitted.
local function fitsReadmission(q, need)
  return q.bytes + need <= byteLimit(q) and (q.readmitted == 0 or q.readmittedBytes + need <= markBytes(q))
end

-- overflowRoom returns how many jobs may be readmitted. If the last Readmit had no room for its first job, that is none
-- until there is room for that job.
local function overflowRoom(q)
  if q.headNeeds > 0 and not fitsReadmission(q, q.headNeeds) then return 0 end
  return max(0, min(q.mark - q.readmitted, q.capacity - q.size))
end

-- leaving returns how many jobs of average size must leave to free so many bytes.
local function leaving(over, held, jobs)
  if over <= 0 or held <= 0 then return 1 end
  return max(1, ceil(min(over, held) * jobs / held))
end

-- MAX_PROMISE is how far the slots promised to refused callers reach beyond the next departure, unless one interval is
-- longer. Each time that a slot was not used, the promised time shrinks by one part in LAPSING.
local MAX_PROMISE, LAPSING = 3600 * SECOND, 8

-- retryAfter returns after what time a refused caller may find room, if that takes so many departures. Consecutive
-- callers are promised consecutive departures, so that each finds a place when it returns.
local function retryAfter(q, jobs)
  local wait
  local room, interval = max(nextDeparture(q), q.stop or 0), longestInterval(q)
  if q.group and q.group ~= q then
    room, interval = max(room, nextDeparture(q.group)), max(interval, longestInterval(q.group))
  end
  if isPaused(q) then
    wait = 30 * SECOND
  elseif interval == 0 then
    wait = max(100000, room - now)
  else
    local slot = min(max(q.promised, room), room + max(MAX_PROMISE, interval))
    set(q, 'promised', slot + interval)
    wait = slot - now + min(((jobs or 1) - 1) * interval, YEAR)
  end
  return max(wait, 1000)
end

-- lapsePromises takes promised slots back when a job comes in while two such jobs find room. Callers that were promised
-- earlier slots would have taken that room if they had returned.
local function lapsePromises(q, bytes)
  if q.promised > now and q.capacity - q.size >= 2 and q.bytes + 2 * bytes <= byteLimit(q) then
    set(q, 'promised', q.promised - floor((q.promised - now) / LAPSING))
  end
end
