-- gives: loadBatches, batchAt, withBatch, batchOf, batchFits, joinBatch, rejoinBatch, noteLast, endInBatch
-- gives: countInBatch, leaveBatch, deferInBatch, giveUpInBatches
--
-- The batches of a queue: how many of the jobs that carry a label were accepted, and how these ended. The record of a
-- batch is read when a call meets the first of its jobs, and written when the queue is saved.
--
-- A record packs the values of COUNTS, when the first and the last job were appended, when the batch ended or 0, the
-- deferred jobs and those of the older generation, 1 if lanes were left out, and for each lane the job that leaves it
-- last: its lane, its ID, when it is due if it was scheduled, and its turn.

local BATCH_BYTES = 400 -- about
local BATCH_HEAD = 200 -- what is stored of a job before its content type, at most
local MAX_BATCHES, MOST_LANES, MOST_STALE = 1000, 32, 10
local KEEP_BATCHES = 7 * 86400 * SECOND
local ENDS = { [S.delivered] = 'delivered', [S.dead] = 'dead', [S.cancelled] = 'cancelled', [S.expired] = 'expired' }

local function recordsKey(q) return B .. 'Q' .. q.nr end
local function finishedKey(q) return B .. 'M' .. q.nr end

-- labelPlace returns where the label of a batch is in s, behind its length, by the record with its flags at that byte.
local function labelPlace(s, at)
  local flags, pos = byte(s, at), at + 1
  if bit.band(flags, EXPIRES) ~= 0 then pos = pos + 7 end
  if bit.band(flags, NOT_BEFORE) ~= 0 then pos = pos + 7 end
  if bit.band(flags, LANE) ~= 0 then pos = pos + 16 end
  if bit.band(flags, PRIORITY) ~= 0 then pos = pos + 1 end
  return pos, byte(s, pos) or 0
end

-- batchAt returns the label in a record with its flags at that byte of s, or nil.
local function batchAt(s, at)
  if (byte(s, at) or 0) % COSTS < BATCHED then return nil end
  local pos, length = labelPlace(s, at)
  return length > 0 and sub(s, pos + 1, pos + length) or nil
end

-- withBatch gives a record with its flags at that byte of s another batch, or none.
local function withBatch(s, at, label)
  local flags, pos, length = byte(s, at), labelPlace(s, at)
  local rest = flags % COSTS < BATCHED and pos or pos + length + 1
  flags = flags - flags % COSTS + flags % BATCHED + (label and BATCHED or 0)
  return sub(s, 1, at - 1) .. string.char(flags) .. sub(s, at + 1, pos - 1) ..
    (label and string.char(#label) .. label or '') .. sub(s, rest)
end

local function remain(b)
  return b.accepted - b.delivered - b.dead - b.cancelled - b.expired - b.missing
end

local function isStale(b) return b.ended > 0 and now - b.ended >= KEEP_BATCHES end

local function unpackBatch(text, label)
  local b = { label = label }
  b.accepted, b.delivered, b.dead, b.cancelled, b.expired, b.missing, b.first, b.last, b.ended, b.deferred,
    b.olderDeferred, b.moreLanes, b.lasts = cmsgpack.unpack(text)
  b.endedBefore = b.ended
  return b
end

local function packBatch(b)
  return cmsgpack.pack(b.accepted, b.delivered, b.dead, b.cancelled, b.expired, b.missing, b.first, b.last, b.ended,
    b.deferred, b.olderDeferred, b.moreLanes, b.lasts)
end

-- keepBatches writes the records that have changed. It ignores keys of other programs.
local function keepBatches(q)
  for label, b in pairs(q.batches) do
    if b and b.changed then
      redis.pcall('HSET', recordsKey(q), label, packBatch(b))
      if b.ended ~= b.endedBefore then
        if b.ended > 0 then
          redis.pcall('ZADD', finishedKey(q), b.ended, label)
        else
          redis.pcall('ZREM', finishedKey(q), label)
        end
      end
      b.endedBefore, b.changed = b.ended, nil
    end
  end
end

local function batchOf(q, label)
  local b = q.batches[label]
  if b == nil then
    local text = redis.pcall('HGET', recordsKey(q), label)
    b = type(text) == 'string' and unpackBatch(text, label) or false
    q.batches[label] = b
  end
  return b and not isStale(b) and b or nil
end

local function batchFits(q, label)
  if batchOf(q, label) then return true end
  keepBatches(q)
  local count, finished = redis.pcall('HLEN', recordsKey(q)), redis.pcall('ZCARD', finishedKey(q))
  return type(count) == 'number' and type(finished) == 'number' and (count < MAX_BATCHES or finished > 0)
end

local function forgetBatch(q, label)
  call('HDEL', recordsKey(q), label)
  call('ZREM', finishedKey(q), label)
  q.batches[label] = false
end

local function createBatch(q, label)
  keepBatches(q)
  if q.batches[label] then forgetBatch(q, label) end
  local count = call('HLEN', recordsKey(q))
  for _ = 1, MOST_STALE do
    local first, ended = unpack(call('ZRANGE', finishedKey(q), '0', '0', 'WITHSCORES'))
    if not first or count < MAX_BATCHES and now - ended < KEEP_BATCHES then break end
    forgetBatch(q, first)
    count = count - 1
  end
  local b = { label = label, accepted = 0, delivered = 0, dead = 0, cancelled = 0, expired = 0, missing = 0,
    first = math.huge, last = 0, ended = 0, deferred = 0, olderDeferred = 0, moreLanes = 0, lasts = {},
    endedBefore = 0 }
  q.batches[label] = b
  M.memoryLeft = M.memoryLeft - BATCH_BYTES
  return b
end

local function batchChanged(b)
  b.changed = true
  local finished = remain(b) == 0
  if finished and b.ended == 0 then
    b.ended, b.lasts = now, {}
  elseif not finished then
    b.ended = 0
  end
end

local function joinBatch(q, label, at)
  local b = batchOf(q, label) or createBatch(q, label)
  b.accepted = b.accepted + 1
  b.first, b.last = min(b.first, at), max(b.last, at)
  batchChanged(b)
  return b
end

-- rejoinBatch is joinBatch for a job that ended in a state, as far as its batch knows, and now waits again: it is
-- counted as remaining instead. since is when the job was appended first.
local function rejoinBatch(q, label, state, since, at)
  local b, count = batchOf(q, label), ENDS[state] or 'missing'
  if not b or b[count] == 0 or since < b.first then return joinBatch(q, label, at) end
  b[count], b.last = b[count] - 1, max(b.last, at)
  batchChanged(b)
  return b
end

local function noteLast(b, h, id, turn)
  local due = h.notBefore > wall and h.notBefore or 0
  for _, o in ipairs(b.lasts) do
    if o[1] == h.lane then
      if due > o[3] or due == o[3] and turn >= o[4] then o[2], o[3], o[4] = id, due, turn end
      return
    end
  end
  if #b.lasts == MOST_LANES then b.moreLanes = 1 else b.lasts[#b.lasts + 1] = { h.lane, id, due, turn } end
end

local function dropLast(b, id)
  for i = #b.lasts, 1, -1 do
    if b.lasts[i][2] == id then table.remove(b.lasts, i) end
  end
end

-- endInBatch counts the end of a job in a state; nil: the overflow lost it.
local function endInBatch(q, label, id, state)
  local b, count = batchOf(q, label), ENDS[state] or 'missing'
  if not b then return end
  b[count] = b[count] + 1
  dropLast(b, id)
  batchChanged(b)
end

-- countInBatch is endInBatch for a job by its key, which has its record.
local function countInBatch(q, id, key, state)
  local label = batchAt(call('GETRANGE', key, 0, BATCH_HEAD), 27)
  if label then endInBatch(q, label, id, state) end
end

local function leaveBatch(q, label, id)
  local b = batchOf(q, label)
  if not b then return end
  b.accepted = b.accepted - 1
  dropLast(b, id)
  batchChanged(b)
end

local function deferInBatch(q, label, number, by)
  local b = batchOf(q, label)
  if not b then return end
  b.deferred, b.changed = b.deferred + by, true
  if number <= q.olderUpTo then b.olderDeferred = b.olderDeferred + by end
end

local function giveUpInBatches(q)
  keepBatches(q)
  for _, label in ipairs(call('HKEYS', recordsKey(q))) do
    local b = batchOf(q, label)
    if b and b.deferred > 0 then
      b.missing, b.deferred = b.missing + b.olderDeferred, b.deferred - b.olderDeferred
      b.olderDeferred = b.deferred
      batchChanged(b)
    end
  end
end

-- loadBatches makes save keep the batches of a queue.
local function loadBatches(q) q.batches, q.keepBatches = q.batches or {}, keepBatches end
