-- needs: settlecodes, held, ended, agenda, departures, stored
-- gives: settle
--
-- Settlements other than that of a job that was just delivered. A call makes these functions when it meets the first.

local AFTER = { [V.delivered] = S.delivered, [V.dead] = S.dead, [V.released] = S.waiting, [V.held] = S.held,
  [V.throttled] = S.waiting, [V.down] = S.waiting }

-- laneError returns what is wrong with the key of the lane to which a job is to return, if anything is.
local function laneError(q, f)
  local size = f.lane ~= ZERO and redis.pcall('ZCARD', lanes.waitingKey(q, f.lane))
  return type(size) == 'table' and errorText(size)
end

-- answerRepeated answers a settlement whose lease is gone. It repeats the answer to the last settlement that was
-- accepted, if this is the same; any other is stale.
local function answerRepeated(q, id, f, epoch, fence, verdict)
  if f then
    if f.settledEpoch ~= epoch or f.settledFence ~= fence or f.verdict ~= verdict then return 0 end
    return AFTER[verdict] or S.scheduled
  end
  local job = redis.pcall('GET', jobKey(q.nr, id))
  if type(job) ~= 'string' or sub(job, 1, 1) ~= 'E' then return 0 end
  local e = unpackEnded(job)
  if e.ended + q.retentionFor <= now or e.epoch ~= epoch or e.fence ~= fence or e.verdict % DECIDED ~= verdict then
    return 0
  end
  -- A job that was canceled, expired or decided on by a person ended later than its last settlement, and otherwise.
  if e.verdict < DECIDED and (e.state == S.delivered or e.state == S.dead) then return e.state end
  return AFTER[verdict] or S.scheduled
end

-- tooOld reports whether a job would be past its retry deadline at an instant.
local function tooOld(q, id, at)
  q.retryDeadline = q.retryDeadline or tonumber(call('HGET', B .. 'q' .. q.nr, 'retry.deadline')) or 0
  if q.retryDeadline == 0 then return false end
  local job = redis.pcall('GETRANGE', jobKey(q.nr, id), 0, 7)
  return type(job) == 'string' and #job == 8 and at > timeAt(job) + q.retryDeadline
end

-- settleAs ends the attempt in the lease record f, and returns the state that the job goes to. It also returns the
-- outcome of an attempt that does not count, because the receiver did not look at the job or was too busy.
local function settleAs(s, id, f, verdict, code, after, reason)
  local q, state, spared = s.q, AFTER[verdict], nil
  if verdict == V.retry or verdict == V.dead or verdict == V.held then
    f.reason = reason
    noteFailure(q, id, reason)
  end
  if verdict == V.released then return state end
  if verdict == V.throttled then
    spared, s.throttled = ATTEMPT_THROTTLED, s.throttled + 1
  elseif verdict == V.down or verdict == V.retry and code >= TROUBLE and q.receiver and q.receiver.opened > 0 then
    spared, s.down = ATTEMPT_DOWN, s.down + 1
  else
    f.attempts = f.attempts + 1
  end
  if verdict == V.retry then
    state = not spared and (f.attempts >= q.maxAttempts or tooOld(q, id, now + after)) and S.dead or S.scheduled
  end
  addAttempt(f, spared or state == S.dead and ATTEMPT_DEAD or state == S.held and ATTEMPT_UNKNOWN or ATTEMPT_RETRY,
    reason)
  return state, spared
end

-- refundQuotas gives a departure back to the quotas and budgets of a queue and of its group, see also noteGivenBack.
local function refundQuotas(q, id, f)
  local bill, g, thisRun = limits.billOf(q, id), q.group, f.epoch == M.run
  if g then groups.noteGivenBack(g) end
  limits.refund(q, f.due, bill, thisRun)
  if g and g ~= q then limits.refund(g, f.due, bill, thisRun) end
  if q.laneUnits then
    lanestate.rechargeLane(q, f.lane, f.due, function(b) limits.refundLimits(b.limits, f.due, bill, thisRun) end)
  end
end

-- giveBackDeparture gives back a departure that was not used, if it was the last one granted.
local function giveBackDeparture(q, f)
  if q.lastFence ~= f.fence or q.lastCost == 0 or f.epoch ~= M.run or q.epoch ~= M.run then return end
  if q.adapt then heldByRate(q) end -- as the call found it
  giveBack(q)
  q.slotBack = true -- see placePulled
  saveBucket(q)
  set(q, 'lastFence', 0)
end

-- giveBackUnstarted gives back the quotas and the departure of a job that was released or did not start. If the circuit
-- is off a job that found the target down gives nothing back, because nothing else bounds how often the target is
-- tried. A probe is given back to quotas in any case.
local function giveBackUnstarted(s, id, f, verdict, code)
  local q = s.q
  local unstarted = verdict == V.released or verdict == V.down and code >= UNTOLD or code == NO_TARGET
  local all = unstarted and (verdict ~= V.down or (call('HGET', B .. 'q' .. q.nr, 'circuit') or '') ~= '')
  local probe = verdict ~= V.released and q.receiver and q.receiver.opened > 0 and f.due >= q.receiver.opened
  if (all or probe) and (q.limits or q.laneUnits or q.group) then refundQuotas(q, id, f) end
  if all then
    giveBackDeparture(q, f)
    if q.group and q.group ~= q then giveBackDeparture(q.group, f) end
  end
  if unstarted then s.unstarted = s.unstarted + 1 end
end

-- returnLeased takes a leased job back to its lane, or to the held or scheduled ones.
local function returnLeased(s, id, f, verdict, code, after, spared)
  local q, state = s.q, f.state
  if state == S.waiting then
    if verdict ~= V.throttled or code == NO_TARGET then giveBackUnstarted(s, id, f, verdict, code) end
    waitAgain(q, id, f)
    if verdict == V.released then s.released = s.released + 1 end
    s.cameBack = s.cameBack + 1
  elseif state == S.held then
    putHeld(q, id, f)
  else
    if spared then giveBackUnstarted(s, id, f, verdict, code) else s.retried = s.retried + 1 end
    f.due = wall + after
    call('ZADD', B .. 't' .. q.nr, f.due, id)
    if f.inFlight and not q.ordered then -- in an ordered queue it still blocks its lane
      lanestate.leaveFlight(q, f.lane)
      f.inFlight = false
    end
    s.scheduled = s.scheduled + 1
  end
  if state ~= S.held then
    trackDeadline(q, id)
    s.returning = true
  end
  s.flights[id] = packLease(f)
  call('HSET', B .. 'f' .. q.nr, id, s.flights[id])
end

-- endLease ends a valid lease, and returns the state of its job.
local function endLease(s, id, f, verdict, code, after, reason)
  local q = s.q
  s.ends[#s.ends + 1] = q.nr .. ':' .. id
  if s.bill then limits.correctCharges(s, f.due, s.bill, s.actual, f.epoch == M.run) end
  local state, spared = settleAs(s, id, f, verdict, code, after, reason)
  f.settledEpoch, f.settledFence, f.verdict, f.state = f.epoch, f.fence, verdict, state
  if state ~= S.dead then
    returnLeased(s, id, f, verdict, code, after, spared)
    return state
  end
  endJob(q, id, f, state, verdict, s.freeing)
  s.dead[#s.dead + 1] = id
  s.gone[#s.gone + 1] = id
  s.flights[id] = ''
  if q.laned then lanestate.endInLane(q, f) end
  return state
end

-- settle decides about one settlement; s is the state of the call for its queue, entry the lease record as stored. It
-- returns the state of the job, 0 or the text of an error. If it ended the lease it also returns the unpacked lease
-- record and when the job had departed.
local function settle(s, id, entry, token, code, after, reason)
  local verdict, epoch, fence = code % LANE_ONLY, unpackStruct('>c8I6', token)
  local f = entry and entry ~= '' and unpackLease(entry)
  if not f or f.state ~= S.leased or f.epoch ~= epoch or f.fence ~= fence then
    return answerRepeated(s.q, id, f, epoch, fence, verdict)
  end
  local wrong = AFTER[verdict] == S.waiting and laneError(s.q, f) -- then only this job is not settled
  if wrong then return wrong end
  local departed = f.due
  return endLease(s, id, f, verdict, code, after, reason), f, departed
end
