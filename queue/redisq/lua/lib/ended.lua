-- needs: leases, dead, stored
-- for batches: batches
--
-- Jobs that end, and the records that are kept of them.

local DECIDED = 64 -- mark added to the verdict of a job that a person decided on

-- unpackEnded reads the record of an ended job; that of a dead job with its timeline, as far as it was read. It also
-- returns where the job's own record begins, if it was kept.
local function unpackEnded(job)
  local e = {}
  local length, pos
  e.state, e.verdict, e.attempts, e.epoch, e.fence, e.appended, length, pos = unpackStruct(ENDED, job, 27)
  e.ended, e.reason = timeAt(job), sub(job, pos, pos + length - 1)
  pos = pos + length
  if e.state == S.dead and #job > pos then
    length, pos = unpackStruct('>I2', job, pos)
    e.timeline = sub(job, pos, pos + length - 1)
    pos = pos + length
  elseif e.state == S.delivered and #job >= pos + 6 then
    local took
    took, e.client = unpackStruct('>I5I2', job, pos)
    e.departed = e.ended - took
  end
  return e, pos
end

-- trim drops delivered, canceled and expired jobs beyond the retention, the oldest first and a bounded number a call.
-- length is the length of their list, and new is how many entries came in this call. The list lives an eighth of the
-- retention longer than its last entry. Until then, or until the first entry is too old, no call needs to look again.
local function trim(q, length, new)
  local key = B .. 'e' .. q.nr
  local over, oldest = min(length - q.retentionMax, 500), now
  for _, entry in ipairs(length > new and call('LRANGE', key, max(over, 0), max(over, 0) + 31) or {}) do
    oldest = unpackStruct('>I7', entry)
    if oldest + q.retentionFor > now then break end
    over = max(over, 0) + 1
  end
  if over > 0 then
    for _, entry in ipairs(call('LPOP', key, over)) do dropEndedJob(q.nr, sub(entry, 8), sub(entry, 1, 7)) end
  end
  call('PEXPIRE', key, ceil(q.retentionFor * 9 / 8000))
  set(q, 'endedLookAt', min(oldest + q.retentionFor, now + floor(q.retentionFor / 8)))
end

-- averageBytes estimates the bytes of a job whose record is gone.
local function averageBytes(q) return q.size > 0 and floor(q.bytes / q.size) or 0 end

-- newFreed returns a count of what ending jobs leave free: places and bytes, and how much of both was readmitted from
-- the overflow.
local function newFreed() return { count = 0, bytes = 0, back = 0, backBytes = 0 } end

local function addFreed(p, bytes, back)
  p.count, p.bytes = p.count + 1, p.bytes + bytes
  if back then p.back, p.backBytes = p.back + 1, p.backBytes + bytes end
end

-- givePlacesBack frees places for good. If another program removed a job, it is unknown whether the job was readmitted.
-- So readmitted is at most size.
local function givePlacesBack(q, p)
  if M.memoryLeft < 1 then M.memoryUntil = 0 end -- there may be memory again
  set(q, 'size', q.size - p.count)
  set(q, 'bytes', q.size > 0 and max(0, q.bytes - p.bytes) or 0)
  if q.readmitted > 0 then
    q.readmittedBytes = q.readmittedBytes or tonumber(call('HGET', B .. 'q' .. q.nr, 'readmittedBytes')) or 0
    set(q, 'readmitted', max(0, min(q.readmitted - p.back, q.size)))
    set(q, 'readmittedBytes', q.readmitted > 0 and max(0, min(q.readmittedBytes - p.backBytes, q.bytes)) or 0)
  end
end

-- endedRecord returns the record of an ended job. head is its stamp, fingerprint and cost, f its lease record with the
-- fence that ended it.
local function endedRecord(head, f, state, verdict, appended)
  local left = 'E' .. pack('>I7', now) .. head .. pack(ENDED, state, verdict, f.attempts, f.epoch, f.fence, appended,
    #f.reason) .. f.reason
  if state == S.dead then left = left .. pack('>I2', #(f.timeline or '')) .. (f.timeline or '') end
  return left
end

-- endJob writes the record of an ended job, and adds its place to freeing.
local function endJob(q, id, f, state, verdict, freeing)
  local key = jobKey(q.nr, id)
  local job
  if state == S.dead then job = redis.pcall('GET', key) else job = redis.pcall('GETRANGE', key, 0, 26) end
  if type(job) ~= 'string' or not LIVE[sub(job, 1, 1)] or #job < 26 then
    return addFreed(freeing, f.bytes or averageBytes(q))
  end
  local bytes = f.bytes or bytesOf(id, call('STRLEN', key))
  local left = endedRecord(sub(job, 9, 26), f, state, verdict, timeAt(job))
  if state == S.dead then
    left, deadBytes[key] = left .. sub(job, 17), bytesOf(id, #job)
  end
  if (byte(job, 27) or 0) % COSTS >= BATCHED then
    withBatches(q)
    batches.countInBatch(q, id, key, state)
  end
  call('SET', key, left, 'PX', ceil(q.retentionFor / 1000))
  addFreed(freeing, bytes, sub(job, 1, 1) == 'R')
end

-- endUnsentJob is endJob for a canceled or expired job. f is its lease record, if it has one; the record keeps the last
-- settled fence.
local function endUnsentJob(q, id, f, state, freeing)
  f = f or { attempts = 0, settledEpoch = NOBODY, settledFence = 0, verdict = 0, reason = '' }
  f.epoch, f.fence = f.settledEpoch, f.settledFence
  endJob(q, id, f, state, f.verdict, freeing)
end

-- rememberEnded adds jobs to the list of delivered, canceled and expired ones.
local function rememberEnded(q, ids)
  if #ids == 0 then return end
  local key, time = B .. 'e' .. q.nr, pack('>I7', now)
  for i, id in ipairs(ids) do ids[i] = time .. id end
  local length = call('RPUSH', key, unpack(ids))
  if length == #ids or length > q.retentionMax or now >= (q.endedLookAt or 0) then trim(q, length, #ids) end
end

-- rememberDead adds jobs to the dead jobs of their name.
local function rememberDead(q, ids)
  if #ids == 0 then return end
  addDead(q, ids, now)
  call('ZADD', B .. 'y', 'NX', now + q.retentionFor, q.name)
  M.firstChore = min(M.firstChore, now + q.retentionFor)
  add(q, 'died', #ids)
  trimDead(q)
end

local function noteFailure(q, id, reason)
  local key = B .. 'r' .. q.nr
  call('LPUSH', key, pack('>I7', now) .. id .. ' ' .. reason)
  call('LTRIM', key, 0, 9)
end

-- countDepartures counts departures in steps of 10 s, for the measured outflow.
local function countDepartures(q, count)
  local w = floor(now / (10 * SECOND))
  if w ~= q.outflowStart then
    set(q, 'outflowPrev', w == q.outflowStart + 1 and q.outflowCur or 0)
    set(q, 'outflowStart', w)
    q.outflowCur = 0
  end
  set(q, 'outflowCur', max(q.outflowCur + count, 0))
end
