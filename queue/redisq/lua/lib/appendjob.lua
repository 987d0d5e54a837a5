-- needs: appendoutcomes, outcomecounts, eta, lanestate, overflow, memory, stored
-- gives: admit, countOutcome
--
-- What becomes of a job that cannot just be put in at the end of the lane without a key: its id may be taken, the queue
-- may be full, or the job has a lane, a priority, a not-before or rules to ask.

local LOOK_AHEAD = 366 * 86400 * SECOND
local ORDINARY = { flags = 0, expires = math.huge, not_before = 0, lane = ZERO, priority = 0 }

-- countIfUnknown counts who waits, where that matters, if it is not known.
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
        etaDeferred(q, counts, costOf(old), before, headOf(body, 19).not_before), timeAt(old)
    end
    if cancelled then return DUPLICATE, S.cancelled end
    return DEFERRED_BEFORE, renewDeferral(q, id, old, number)
  end
  local code = again and ACCEPTED_BEFORE or DUPLICATE
  if sub(old, 1, 1) == 'E' then return code, (unpack_(ENDED, old, 27)) end
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

local function deferJob(q, id, body, h, cost, counts, need)
  countIfUnknown(q, counts)
  local position, eta = counts.waiting + q.deferred + 1, etaDeferred(q, counts, cost, q.dcost, h.not_before)
  if eta - skew > h.expires and not isPausedForGood(q) then return EXPIRED, eta end
  -- This may raise, so it comes before anything is written.
  if counts.aside == 0 then call('ZADD', B .. 'o', 'NX', now, q.name) end
  set(q, 'tickets', q.tickets + 1)
  call('SET', jobKey(q.nr, id), 'D' .. pack('>I7', now) .. sub(body, 1, 18) .. pack(DEFERRED, q.tickets, 0, need),
    'PX', ceil((q.dage + q.rfor) / 1000))
  countDeferred(q, 1, cost, need)
  counts.aside = counts.aside + 1
  return SET_ASIDE, q.tickets, position, eta, now
end

-- refuse answers for a job that found no room.
local function refuse(code, wait) return code, max(wait, 1000) end

-- refuseForLane answers for a job that finds no room in its lane.
local function refuseForLane(q, lane, rule, counts, need)
  local held, bytes = laneSize(q, lane)
  local over = rule.bytes > 0 and bytes + need - rule.bytes or 0
  if over <= 0 and (rule.cap == 0 or held < rule.cap) then return end
  local opens = rule.n > 0 and laneNext(bucketOf(q, lane, rule, now), now)
    or q.receiver and receiver.stopsUntil(q, lane)
    or now
  local code, wait = refuse(LANE_FULL, max(opens - now,
    min(leaving(over, bytes, held) * counts.lanes * longestInterval(q), YEAR)))
  if over > 0 then return code, wait, bytes, rule.bytes, need end
  return code, wait
end

-- refusedBySelf answers for a job that a bound of its own refuses, whatever room the queue has.
local function refusedBySelf(q, h, counts, need)
  local rule = ruleOf(q, h.lane)
  if rule.bytes > 0 and need > rule.bytes then return TOO_LARGE, 1, 0, rule.bytes, need end
  if rule.cap > 0 or rule.bytes > 0 then
    local code, wait, held, most, needs = refuseForLane(q, h.lane, rule, counts, need)
    if code then return code, wait, held, most, needs end
  end
  local T = B .. 't' .. q.nr
  if h.not_before > wall and q.msched > 0 and call('ZCARD', T) >= q.msched then
    return refuse(SCHEDULE_FULL, call('ZRANGE', T, '0', '0', 'WITHSCORES')[2] - wall)
  end
end

-- accept lets a job in unless it would depart too late.
local function accept(q, id, live, body, h, cost, counts, need)
  checkKeysFor(q, h)
  countIfUnknown(q, counts)
  local W, turn = waitingKey(q, h.lane), q.turn - h.priority * PRIORITY_STEP
  local in_lane = call('ZCARD', W)
  local i = h.priority == 0 and in_lane or call('ZCOUNT', W, '-inf', string.format('(%.0f', turn))
  local eta = etaOfNew(q, h, cost, turn - (counts.head or turn), i, counts.lanes - min(in_lane, 1), counts.waiting)
  if h.not_before > wall then eta = max(eta, h.not_before + skew) end
  if eta - skew > h.expires and not isPausedForGood(q) then return EXPIRED, eta end
  lapsePromises(q, need)
  local exact = h.flags < LANE and etaIsExact(q, counts)
  call('SET', jobKey(q.nr, id), live .. body)
  local state = enterLane(q, id, h, cost, in_lane, need)
  counts.entered = counts.entered + 1
  if state == S.scheduled then return ACCEPTED, state, 0, eta, 0 end
  counts.waiting, counts.lanes = counts.waiting + 1, counts.lanes + (in_lane == 0 and 1 or 0)
  if h.lane == ZERO then counts.head = min(counts.head or turn, turn) end
  return ACCEPTED, state, i + 1, eta, exact and 1 or 0
end

-- firmBytes is what counts toward max_bytes and makes no room for a new job.
local function firmBytes(q)
  local n = q.bytes + boundDeferredBytes(q)
  if q.deadbytes and q.deadbytes + 0 > 0 and call('HGET', B .. 'q' .. q.nr, 'retention.full') == 'reject' then
    n = n + q.deadbytes
  end
  return n
end

-- fits reports whether the queue has so many bytes for a new job, once the dead jobs that may be dropped are.
local function fits(q, need) return firmBytes(q) + need <= byteLimit(q) end

-- fitsOverflow reports whether so many bytes more may be deferred.
local function fitsOverflow(q, need)
  loadOverflow(q)
  if q.dmaxbytes > 0 then return q.dbytes + need <= q.dmaxbytes end
  return q.maxbytes == 0 or fits(q, need)
end

-- overflowOutcome answers for a job for which the queue has no room, and that may be deferred.
local function overflowOutcome(q, id, body, h, cost, counts, need)
  if q.deferred >= q.dmax or not fitsOverflow(q, need) then return refuse(OVERFLOW_FULL, retryAfter(q)) end
  return deferJob(q, id, body, h, cost, counts, need)
end

-- limitedByRules answers for a job that a rule refuses, a rule of another group included, or that cannot be asked.
local function limitedByRules(q, id, body, h, cost, counts, need)
  local says, wait, defers = byte(body, 7), nil, true
  if counts.asks then
    if appendrules.unaskable(counts.asks) then return CANNOT_ASK end
    wait, defers = appendrules.judge(counts.asks, cost)
    appendrules.leave() -- of shadows too, and whatever else the job is refused by
  end
  if not wait and says % 64 < 32 then return end
  if not defers or says < 64 then return refuse(LIMIT_REACHED, wait or 0) end
  loadOverflow(q)
  return overflowOutcome(q, id, body, h, cost, counts, need)
end

-- chargeIfIn charges the rules that allowed a job, if it was accepted or set aside.
local function chargeIfIn(counts, cost, code, ...)
  if counts.asks and (code == SET_ASIDE or code == ACCEPTED) then appendrules.charge(cost) end
  return code, ...
end

-- answerFull answers for a job that finds no room in its queue. If it lacks bytes it also returns how many are
-- held, how many may be, and how many the job takes.
local function answerFull(q, need)
  local firm = firmBytes(q)
  local over = firm + need - byteLimit(q)
  local code, wait = refuse(FULL, retryAfter(q, leaving(over, q.bytes, q.size)))
  if over > 0 then return code, wait, firm, byteLimit(q), need end
  return code, wait
end

-- keptForReadmission reports whether a queue with a backlog has only those places, or bytes, left that are for what
-- comes back: up to the mark, and the bytes that the first one there needs.
local function keptForReadmission(q, need)
  loadOverflow(q)
  if q.size - q.back >= max(1, q.cap - q.mark) then return true end
  local others = q.bytes - q.backbytes
  return (others > 0 or q.headneed > 0) and others + need > byteLimit(q) - max(markBytes(q), q.headneed)
end

-- keptForOthers reports whether what is free in the store is for queues that take less of it.
local function keptForOthers(q, need)
  return q.bytes + (q.deadbytes or 0) + need > (M.memory_fair or ANY_BYTES)
end

-- admit answers for one job.
local function admit(q, id, live, body, cost, counts)
  local old, number, cancelled = remembered(q, id)
  if old then return answerKnown(q, id, body, counts, old, number, cancelled) end
  if expiresAt(body, 19) <= wall then return EXPIRED end
  local h, need = ORDINARY, bytesOf(id, #body + 8)
  if need > byteLimit(q) then return TOO_LARGE, 0, 0, byteLimit(q), need end
  if q.laned or byte(body, 19) >= EXPIRES then
    countIfUnknown(q, counts)
    h = headOf(body, 19)
    if h.not_before > wall + LOOK_AHEAD then return TOO_FAR end
    local code, wait_for, held, most, needs = refusedBySelf(q, h, counts, need)
    if code then return code, wait_for, held, most, needs end
  end
  local code, x, position, eta, since = limitedByRules(q, id, body, h, cost, counts, need)
  if code then return code, x, position, eta, since end
  local no_place, behind = q.size >= q.cap or not fits(q, need), hasBacklog(q)
  if (no_place or behind) and deferrable(q, body) then
    loadOverflow(q)
    if (memoryFull() or keptForOthers(q, need)) and q.deferred < q.dmax and fitsOverflow(q, need) then
      return STORE_FULL
    end
    return chargeIfIn(counts, cost, overflowOutcome(q, id, body, h, cost, counts, need))
  end
  -- The places of a queue with a backlog, up to the mark, are for what comes back.
  if no_place or behind and keptForReadmission(q, need) then return answerFull(q, need) end
  if memoryFull() or keptForOthers(q, need) then return STORE_FULL end
  return chargeIfIn(counts, cost, accept(q, id, live, body, h, cost, counts, need))
end
