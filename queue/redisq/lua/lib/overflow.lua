-- needs: pace, stored
--
-- Jobs on the overflow, and the backlog that they make.
--
-- The record of a deferred job has 'D' and 7 bytes of when it was deferred; stamp, fingerprint and cost where a live
-- job has them; 7 bytes of its ticket's number; 1 byte that is 1 once it was canceled; and 4 bytes of what it takes,
-- which older stores lack.
local DEFERRED, DEFERRED_BYTES, OLDER_DEFERRED_BYTES = '>I7BI4', 38, 34

-- loadOverflow loads what a queue keeps of its overflow, unless that is loaded.
local OVERFLOW = { 'mark', 'deferredCost', 'deferredBytes', 'lastTicket', 'givenUpTo', 'olderUpTo',
  'generationSince', 'olderJobs', 'olderCost', 'olderBytes', 'announcedAt', 'readmittedBytes', 'headNeeds' }

local function loadOverflow(q)
  if q.mark then return end
  local Q = B .. 'q' .. q.nr
  local v = call('HMGET', Q, 'deferred.max_jobs', 'deferred.max_age', 'overflow', 'deferred.max_bytes',
    unpack(OVERFLOW))
  local maxJobs, maxAge, overflow, maxBytes = unpack(v, 1, 4)
  q.deferredMaxJobs, q.deferredMaxAge = tonumber(maxJobs) or 0, tonumber(maxAge) or 0
  q.deferredMaxBytes, q.defers = tonumber(maxBytes) or 0, overflow == 'defer'
  for i, field in ipairs(OVERFLOW) do q[field] = q[field] or tonumber(v[4 + i]) or 0 end
end

-- deferralOf reads the record of a deferral: its number, whether it was canceled, and what its job takes.
local function deferralOf(record)
  if #record == OLDER_DEFERRED_BYTES then record = record .. '\0\0\0\0' end
  local number, cancelled, bytes = unpackStruct(DEFERRED, record, 27)
  return number, cancelled > 0, bytes
end

-- remembered returns the job that the queue has under an id; of a deferred one also its ticket's number and whether it
-- was canceled. It returns nil for a job that counts as absent, whether or not Redis has dropped it yet. It raises when
-- the key holds something else, and so is called before anything is written.
local function remembered(q, id)
  local job = call('GET', jobKey(q.nr, id))
  if not job then return nil end
  local kind = sub(job, 1, 1)
  if kind == 'E' and #job >= 26 then
    if timeAt(job) + q.retentionFor <= now then return nil end
    return job
  elseif kind == 'D' and (#job == DEFERRED_BYTES or #job == OLDER_DEFERRED_BYTES) then
    loadOverflow(q)
    local number, cancelled = deferralOf(job)
    if number <= q.givenUpTo or timeAt(job) + q.deferredMaxAge + q.retentionFor <= now then return nil end
    return job, number, cancelled
  elseif LIVE[kind] and #job > 26 then
    return job
  end
  raise('WRONGTYPE', 'the job\'s key holds something else')
end

-- countDeferred adds to the counts of deferred jobs.
local function countDeferred(q, by, cost, bytes)
  loadOverflow(q)
  local before = q.deferred
  set(q, 'deferred', max(0, q.deferred + by))
  set(q, 'deferredCost', max(0, q.deferredCost + cost))
  set(q, 'deferredBytes', max(0, q.deferredBytes + bytes))
  M.deferred = M.deferred + q.deferred - before
end

-- uncountDeferral takes a deferred job out of the counts, by its record.
local function uncountDeferral(q, record)
  loadOverflow(q)
  local cost, number, _, bytes = costOf(record), deferralOf(record)
  countDeferred(q, -1, -cost, -bytes)
  if number <= q.olderUpTo then
    set(q, 'olderJobs', max(0, q.olderJobs - 1))
    set(q, 'olderCost', max(0, q.olderCost - cost))
    set(q, 'olderBytes', max(0, q.olderBytes - bytes))
  end
end

-- renewDeferral returns the number of a deferral. If it is of the older generation it gets a new one, because another
-- copy of the job may be on its way to the overflow.
local function renewDeferral(q, id, record, number)
  if number > q.olderUpTo then return number end
  local fresh, _, _, bytes = q.lastTicket + 1, deferralOf(record)
  call('SET', jobKey(q.nr, id), sub(record, 1, 26) .. pack(DEFERRED, fresh, 0, bytes), 'KEEPTTL')
  uncountDeferral(q, record)
  set(q, 'lastTicket', fresh)
  countDeferred(q, 1, costOf(record), bytes)
  return fresh
end

-- nextGeneration begins a new generation of deferrals once all that was stored before some instant has been seen. The
-- older generation ends: its jobs that are still recorded are not on the overflow. It returns how many deferrals are
-- given up.
local function nextGeneration(q, seen, onTheWay)
  if seen - q.generationSince <= onTheWay then return 0 end
  local missing = min(q.olderJobs, q.deferred)
  countDeferred(q, -missing, -q.olderCost, -q.olderBytes)
  add(q, 'missing', missing)
  set(q, 'givenUpTo', q.olderUpTo)
  set(q, 'olderUpTo', q.lastTicket)
  set(q, 'generationSince', now)
  set(q, 'olderJobs', q.deferred)
  set(q, 'olderCost', q.deferredCost)
  set(q, 'olderBytes', q.deferredBytes)
  return missing
end

-- rankOfDeferred returns the place of a job among the deferred, and the cost of the jobs before it, estimated from
-- ticket numbers.
local function rankOfDeferred(q, number)
  local rank = max(1, number - (q.lastTicket - q.deferred))
  return rank, q.deferred > 0 and floor(q.deferredCost * (rank - 1) / q.deferred) or 0
end

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
    if l.max == 0 then T = max(T, ceil(l.d / l.n)) end
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

local function readmitBatch(q) return min(500, max(1, ceil(q.mark / 4))) end

-- trackBacklog updates the list of queues with a backlog.
local function trackBacklog(q)
  if hasBacklog(q) then call('ZADD', B .. 'o', 'NX', now, q.name) else call('ZREM', B .. 'o', q.name) end
end

-- overflowRoom returns how many jobs may be readmitted. If the last Readmit had no room for its first job, that is none
-- until there is room for that job.
local function overflowRoom(q)
  if q.headNeeds > 0 and not fitsReadmission(q, q.headNeeds) then return 0 end
  return max(0, min(q.mark - q.readmitted, q.capacity - q.size))
end
