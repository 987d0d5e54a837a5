-- needs: pace, stored
-- for batches: batches
--
-- Jobs on the overflow, and the backlog that they make.
--
-- The record of a deferred job has 'D' and 7 bytes of when it was deferred; stamp, fingerprint and cost where a live
-- job has them; 7 bytes of its ticket's number; 1 byte that is 1 once it was canceled; and 4 bytes of what it takes,
-- which older stores lack; then the label of the batch that counts it, if any.
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
  elseif kind == 'D' and (#job >= DEFERRED_BYTES or #job == OLDER_DEFERRED_BYTES) then
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

-- deferredBatch returns the label of the batch that counts a deferral, or nil.
local function deferredBatch(q, record)
  if #record <= DEFERRED_BYTES then return nil end
  withBatches(q)
  return sub(record, DEFERRED_BYTES + 1)
end

-- uncountDeferral takes a deferred job out of the counts, by its record.
local function uncountDeferral(q, record)
  loadOverflow(q)
  local cost, number, _, bytes = costOf(record), deferralOf(record)
  local label = deferredBatch(q, record)
  if label then batches.deferInBatch(q, label, number, -1) end
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
  call('SET', jobKey(q.nr, id), sub(record, 1, 26) .. pack(DEFERRED, fresh, 0, bytes) ..
    sub(record, DEFERRED_BYTES + 1), 'KEEPTTL')
  uncountDeferral(q, record)
  local label = deferredBatch(q, record)
  if label then batches.deferInBatch(q, label, fresh, 1) end
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
  if call('EXISTS', B .. 'Q' .. q.nr) == 1 then
    withBatches(q)
    batches.giveUpInBatches(q)
  end
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

local function readmitBatch(q) return min(500, max(1, ceil(q.mark / 4))) end

-- trackBacklog updates the list of queues with a backlog.
local function trackBacklog(q)
  if hasBacklog(q) then call('ZADD', B .. 'o', 'NX', now, q.name) else call('ZREM', B .. 'o', q.name) end
end
