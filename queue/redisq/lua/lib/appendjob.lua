-- needs: appendoutcomes, dead, outcomecounts, eta, lanestate, overflow, room, memory, stored
-- for batches: batches
-- gives: admit
--
-- Decides about jobs that cannot just be put at the end of the lane without a key: the id may be taken, the queue may
-- be full, or the job has a lane, a priority, a not-before or rules to ask.

local LOOK_AHEAD = 366 * 86400 * SECOND
local ORDINARY = { flags = 0, expires = math.huge, notBefore = 0, lane = ZERO, priority = 0 }

-- countIfUnknown counts the waiting jobs and their lanes unless counts has them.
local function countIfUnknown(q, counts)
  if counts.waiting then return end
  for field, value in pairs(countWaiting(q)) do counts[field] = value end
end

-- answerKnown answers for an id that is taken.
local function answerKnown(q, id, body, counts, old, number, cancelled)
  if sub(old, 17, 24) ~= sub(body, 9, 16) then return CONFLICT end
  local again = sub(old, 9, 16) == sub(body, 1, 8)
  if number then
    if again then
      countIfUnknown(q, counts)
      local rank, before = rankOfDeferred(q, number)
      return SET_ASIDE, number, counts.waiting + rank,
        etaDeferred(q, counts, costOf(old), before, headOf(body, 19).notBefore), timeAt(old)
    end
    if cancelled then return DUPLICATE, S.cancelled end
    return DEFERRED_BEFORE, renewDeferral(q, id, old, number)
  end
  local code = again and ACCEPTED_BEFORE or DUPLICATE
  if sub(old, 1, 1) == 'E' then return code, (unpackStruct(ENDED, old, 27)) end
  countIfUnknown(q, counts)
  local entry = call('HGET', B .. 'f' .. q.nr, id)
  local f = entry and unpackLease(entry)
  local state = f and f.state or S.waiting
  if state ~= S.waiting and (state ~= S.scheduled or not again) then return code, state end
  local position, eta = etaOf(q, counts, id, old, f)
  return code, state, position, eta, etaIsExact(q, counts) and 1 or 0
end

local function deferrable(q, body)
  local says = floor(byte(body, 7) / 64)
  if says < 2 then return says == 1 end
  loadOverflow(q)
  return q.defers
end

-- batchIn returns the label of a job's batch, or nil.
local function batchIn(q, body)
  if byte(body, 19) % COSTS < BATCHED then return nil end
  withBatches(q)
  return batches.batchAt(body, 19)
end

local function deferJob(q, id, body, h, cost, counts, need)
  countIfUnknown(q, counts)
  local position, eta = counts.waiting + q.deferred + 1, etaDeferred(q, counts, cost, q.deferredCost, h.notBefore)
  if eta - skew > h.expires and not isPausedForGood(q) then return EXPIRED, eta end
  -- This may raise, so it comes before anything is written.
  if counts.deferred == 0 then call('ZADD', B .. 'o', 'NX', now, q.name) end
  set(q, 'lastTicket', q.lastTicket + 1)
  local label = batchIn(q, body)
  call('SET', jobKey(q.nr, id), 'D' .. pack('>I7', now) .. sub(body, 1, 18) .. pack(DEFERRED, q.lastTicket, 0, need) ..
    (label or ''), 'PX', ceil((q.deferredMaxAge + q.retentionFor) / 1000))
  countDeferred(q, 1, cost, need)
  if label then
    batches.noteLast(batches.joinBatch(q, label, now), h, id, q.turn - h.priority * PRIORITY_STEP)
    batches.deferInBatch(q, label, q.lastTicket, 1)
  end
  counts.deferred = counts.deferred + 1
  return SET_ASIDE, q.lastTicket, position, eta, now
end

-- refuse answers for a job that found no room.
local function refuse(code, wait) return code, max(wait, 1000) end

-- refuseForLane answers for a job that finds no room in its lane.
local function refuseForLane(q, lane, rule, counts, need)
  local held, bytes = laneSize(q, lane)
  local over = rule.bytes > 0 and bytes + need - rule.bytes or 0
  if over <= 0 and (rule.capacity == 0 or held < rule.capacity) then return end
  local opens = rule.paced and laneNext(bucketOf(q, lane, rule, now), now)
    or q.receiver and receiver.stopsUntil(q, lane)
    or now
  if rule.hours then opens = limits.nextOpen(limits.laneHours(q, rule), opens) end
  local code, wait = refuse(LANE_FULL, max(opens - now,
    min(floor(leaving(over, bytes, held) * counts.weights / rule.weight) * longestInterval(q), YEAR)))
  if over > 0 then return code, wait, bytes, rule.bytes, need end
  return code, wait
end

-- refusedBySelf answers for a job that its lane, its size or its not-before refuses, whatever room the queue has.
local function refusedBySelf(q, h, counts, need)
  local rule = ruleOf(q, h.lane)
  if rule.bytes > 0 and need > rule.bytes then return TOO_LARGE, 1, 0, rule.bytes, need end
  if rule.capacity > 0 or rule.bytes > 0 then
    local code, wait, held, most, needs = refuseForLane(q, h.lane, rule, counts, need)
    if code then return code, wait, held, most, needs end
  end
  local T = B .. 't' .. q.nr
  if h.notBefore > wall and q.maxScheduled > 0 and call('ZCARD', T) >= q.maxScheduled then
    return refuse(SCHEDULE_FULL, call('ZRANGE', T, '0', '0', 'WITHSCORES')[2] - wall)
  end
end

-- accept gives a job its place unless it would depart after it expires.
local function accept(q, id, live, body, h, cost, counts, need)
  checkKeysFor(q, h)
  countIfUnknown(q, counts)
  local W, turn = waitingKey(q, h.lane), q.turn - h.priority * PRIORITY_STEP
  local inLane, weight = call('ZCARD', W), ruleOf(q, h.lane).weight
  local i = h.priority == 0 and inLane or call('ZCOUNT', W, '-inf', string.format('(%.0f', turn))
  local others = counts.weights - min(inLane, 1) * weight
  local eta = etaOfNew(q, h, cost, turn - (counts.head or turn), i, others, counts.waiting)
  if h.notBefore > wall then eta = max(eta, h.notBefore + skew) end
  if eta - skew > h.expires and not isPausedForGood(q) then return EXPIRED, eta end
  lapsePromises(q, need)
  local exact = h.flags < LANE and etaIsExact(q, counts)
  call('SET', jobKey(q.nr, id), live .. body)
  local state, label = enterLane(q, id, h, cost, inLane, need), batchIn(q, body)
  if label then batches.noteLast(batches.joinBatch(q, label, now), h, id, turn) end
  counts.entered = counts.entered + 1
  if state == S.scheduled then return ACCEPTED, state, 0, eta, 0 end
  counts.waiting, counts.weights = counts.waiting + 1, counts.weights + (inLane == 0 and weight or 0)
  if h.lane == ZERO then counts.head = min(counts.head or turn, turn) end
  return ACCEPTED, state, i + 1, eta, exact and 1 or 0
end

-- boundDeadBytes returns what dead jobs take of max_bytes if they are not dropped for new jobs.
local function boundDeadBytes(q)
  local n = (q.deadBytes or 0) + 0
  return n > 0 and call('HGET', B .. 'q' .. q.nr, 'retention.full') == 'reject' and n or 0
end

-- firmBytes returns the bytes that count toward max_bytes and cannot be freed for a new job.
local function firmBytes(q) return q.bytes + boundDeferredBytes(q) + boundDeadBytes(q) end

-- fits reports whether the queue has so many bytes for a new job once droppable dead jobs are dropped. If the others
-- are in the way, it drops those past their retention.
local function fits(q, need)
  while firmBytes(q) + need > byteLimit(q) do
    if boundDeadBytes(q) == 0 then return false end
    checkDeadKeys(q.name)
    if trimDead(q) == 0 then return false end
  end
  return true
end

-- fitsOverflow reports whether so many more bytes may be deferred.
local function fitsOverflow(q, need)
  loadOverflow(q)
  if q.deferredMaxBytes > 0 then return q.deferredBytes + need <= q.deferredMaxBytes end
  return q.maxBytes == 0 or fits(q, need)
end

-- overflowOutcome answers for a job that may be deferred and for which the queue has no room.
local function overflowOutcome(q, id, body, h, cost, counts, need)
  if q.deferred >= q.deferredMaxJobs or not fitsOverflow(q, need) then return refuse(OVERFLOW_FULL, retryAfter(q)) end
  return deferJob(q, id, body, h, cost, counts, need)
end

-- limitedByRules answers for a job that a rule refuses, including a rule of another group, or whose rules cannot be
-- asked.
local function limitedByRules(q, id, body, h, cost, counts, need)
  local says, wait, defers = byte(body, 7), nil, true
  if counts.asks then
    if appendrules.unaskable(counts.asks) then return CANNOT_ASK end
    wait, defers = appendrules.judge(counts.asks, cost)
    appendrules.leave() -- also the answers of shadows, whatever else refuses the job
  end
  if not wait and says % 64 < 32 then return end
  if not defers or says < 64 then return refuse(LIMIT_REACHED, wait or 0) end
  loadOverflow(q)
  return overflowOutcome(q, id, body, h, cost, counts, need)
end

-- chargeIfIn charges the rules that allowed a job if it was accepted or deferred.
local function chargeIfIn(counts, cost, code, ...)
  if counts.asks and (code == SET_ASIDE or code == ACCEPTED) then appendrules.charge(cost) end
  return code, ...
end

-- answerFull answers for a job that finds no room in its queue. If bytes are missing it also returns the bytes held,
-- the maximum, and what the job takes.
local function answerFull(q, need)
  local firm = firmBytes(q)
  local over = firm + need - byteLimit(q)
  local code, wait = refuse(FULL, retryAfter(q, leaving(over, q.bytes, q.size)))
  if over > 0 then return code, wait, firm, byteLimit(q), need end
  return code, wait
end

-- keptForReadmission reports whether the places or bytes that a queue with a backlog has left are for readmitted jobs.
-- These are the places up to the mark, and the bytes that the first job there needs.
local function keptForReadmission(q, need)
  loadOverflow(q)
  if q.size - q.readmitted >= max(1, q.capacity - q.mark) then return true end
  local others = q.bytes - q.readmittedBytes
  return (others > 0 or q.headNeeds > 0) and others + need > byteLimit(q) - max(markBytes(q), q.headNeeds)
end

-- keptForOthers reports whether the free memory of the store is for queues that take less of it.
local function keptForOthers(q, need)
  return q.bytes + (q.deadBytes or 0) + need > (M.memoryFair or ANY_BYTES)
end

-- admitTo decides about a job, and returns its outcome and four numbers that go with it.
local function admitTo(q, id, live, body, cost, counts)
  local old, number, cancelled = remembered(q, id)
  if old then return answerKnown(q, id, body, counts, old, number, cancelled) end
  if expiresAt(body, 19) <= wall then return EXPIRED end
  local label = batchIn(q, body)
  if label and not batches.batchFits(q, label) then body = batches.withBatch(body, 19) end
  if q.links or byte(body, 19) >= COSTS then
    withLimits(q)
    local resolved, unit, missing = limits.resolveCosts(q, body)
    if not resolved then return missing and MISSING_COST or UNCOUNTED_UNIT, unit end
    body = resolved
  end
  local h, need = ORDINARY, bytesOf(id, #body + 8)
  if need > byteLimit(q) then return TOO_LARGE, 0, 0, byteLimit(q), need end
  if q.laned or byte(body, 19) >= EXPIRES then
    countIfUnknown(q, counts)
    h = headOf(body, 19)
    if h.notBefore > wall + LOOK_AHEAD then return TOO_FAR end
    local code, waitFor, held, most, needs = refusedBySelf(q, h, counts, need)
    if code then return code, waitFor, held, most, needs end
  end
  local code, x, position, eta, since = limitedByRules(q, id, body, h, cost, counts, need)
  if code then return code, x, position, eta, since end
  local noPlace, behind = not fits(q, need) or q.size >= q.capacity, hasBacklog(q)
  if (noPlace or behind) and deferrable(q, body) then
    loadOverflow(q)
    if (memoryFull() or keptForOthers(q, need)) and q.deferred < q.deferredMaxJobs and fitsOverflow(q, need) then
      return STORE_FULL
    end
    return chargeIfIn(counts, cost, overflowOutcome(q, id, body, h, cost, counts, need))
  end
  -- The places of a queue with a backlog, up to the mark, are for readmitted jobs.
  if noPlace or behind and keptForReadmission(q, need) then return answerFull(q, need) end
  if memoryFull() or keptForOthers(q, need) then return STORE_FULL end
  return chargeIfIn(counts, cost, accept(q, id, live, body, h, cost, counts, need))
end

-- admit decides about a job, the i-th argument, and notes and counts its outcome in s, the state of the append. loaded
-- says whether the lanes of the queue could be loaded. A job whose keys hold something else fails.
local function admit(s, loaded, i, id, body, cost)
  local q, counts, others = s.q, s.counts, s.others
  if s.asking then
    counts.asks = i
    appendrules.unsay(i)
  end
  local ok, code, x, position, eta, last = loaded, nil, nil, nil, nil, nil
  if loaded then ok, code, x, position, eta, last = pcall(admitTo, q, id, s.live, body, cost, counts) end
  if ok then
    s.counted = countOutcome(s.counted, code)
  else
    code, x, position, eta, last = 0, 0, 0, 0, 0 -- failed
  end
  local n = #others
  others[n + 1], others[n + 2], others[n + 3] = (i - s.first) / s.step, code, x or 0
  others[n + 4], others[n + 5], others[n + 6] = position or 0, eta or 0, last or 0
end
