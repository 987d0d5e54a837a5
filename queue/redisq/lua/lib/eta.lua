-- needs: lanes, pace, stored
-- gives: countWaiting, aheadOf, etaDeferred, etaOf, etaIsExact
--
-- When a job is expected to depart.

-- resumesAt returns when jobs leave a queue again, after its pause, its parent's pause and its stop.
local function resumesAt(q)
  local till = max(q.pausedUntil or 0, q.group and q.group.pausedUntil or 0)
  return max(now, till > 0 and till + skew or 0, q.stop or 0)
end

-- paceEta is leaky.Pacer.ETA as of an instant, in the same steps, and not before the stop if there is one. With hours
-- it is leaky.Hours.ETA.
local function paceEta(q, ahead, at, stop, h)
  if h then at = limits.nextOpen(h, at) end
  bounded(q, at + HORIZON)
  if q.n == 0 then return at end
  local s = { n = q.n, d = q.d, burst = q.burst, tat = q.tat, rem = q.rem, last = q.last }
  if stop then receiver.rise(s, stop) end
  if s.tat < at then s.tat, s.rem = at, 0 end
  if h then
    local whole, rest = burstParts(s)
    return limits.etaWithin(h, s.n, s.d, readyAt(s), rest > 0 and whole + 1 or whole, at, ahead)
  end
  return max(at, min(readyAt(s) + ceil(ahead * q.d / q.n), FARTHEST))
end

-- How many jobs an estimate in other units considers, and the last instant of it, in the year 2255: numbers below 2^53
-- are exact.
local MOST_AHEAD, LATEST_TURN = 4000000, 9000000000000000

-- budgetEta returns when a budget of the queue q lets a job of a queue depart that has so many jobs ahead of it. They
-- are taken to cost what is estimated.
local function budgetEta(l, q, ahead, goes, of)
  local typical = limits.estimate(of, l.unit) or 1
  local used = l.tat > goes and ceil((l.tat - goes) * l.n / l.d) or 0
  local more = max(0, min(ahead, MOST_AHEAD) * typical + used + min(typical, l.burst) - l.burst)
  return paceEta({ n = l.n, d = l.d, burst = 1, tat = 0, rem = 0, last = 0, lastCost = 0 }, more, goes, nil, q.hours)
end

-- quotaEta is leaky.Quota.ETA for a limit of the queue q.
local function quotaEta(l, q, ahead, goes, of)
  local typical = l.unit and limits.estimate(of, l.unit) or 1
  if l.unit then ahead = min(ahead, MOST_AHEAD) * typical end
  local ends, used, step = limits.windowAt(l, goes)
  local begins, rest = limits.turn(l, ends, used, step, ahead)
  if not begins then return goes end
  if l.unit and begins >= LATEST_TURN then begins, rest = LATEST_TURN, 0 end
  local empty = { n = q.n, d = q.d, burst = q.burst, tat = 0, rem = 0, last = 0, lastCost = 0 }
  return paceEta(empty, floor(rest / max(1, typical)), begins + skew, nil, q.hours)
end

-- outflowEta returns when a job departs with so much cost ahead of it, by the bucket and the limits of the queue. It
-- also returns the quota or budget that decides, if one does. The job is in the queue of, by default q.
local function outflowEta(q, ahead, goes, of)
  local stop = q.group ~= q and q.stop or nil
  local at, quota = paceEta(q, ahead, goes, stop, q.hours), nil
  for _, l in ipairs(q.limits or {}) do
    if l.pace then
      local own = paceEta(l, ahead, goes, stop, q.hours)
      if own >= at then at, quota = own, nil end
    end
  end
  for _, l in ipairs(q.limits or {}) do
    local own = l.budget and budgetEta(l, q, ahead, goes, of or q) or at
    if own > at then at, quota = own, l end
  end
  for _, l in ipairs(q.limits or {}) do
    local own = l.max > 0 and quotaEta(l, q, ahead, goes, of or q) or at
    if own > at then at, quota = own, l end
  end
  return at, quota
end

-- amongOthers returns how much departs before a job that has so much ahead of it in its lane or queue of that weight,
-- while others with that sum of weights take turns with it.
local function amongOthers(ahead, others, weight) return ahead + floor((ahead + 1) * others / weight) end

-- groupEta returns when the group lets a job out. The job has the cost a ahead of it in its own queue, where n other
-- jobs wait; deferred is the part of a on the overflow.
local function groupEta(q, a, n, cost, deferred, goes)
  local g, elsewhere, others = q.group, groups.waitingElsewhere(q)
  local ahead = min(amongOthers(a, others, q.weight), (elsewhere + n) * max(g.groupMaxCost, cost) + deferred)
  return outflowEta(g, ahead, goes, q)
end

-- extraWeight returns by how much the weights of the lanes with waiting jobs exceed those of as many lanes without an
-- override.
local function extraWeight(q)
  local extra, kept = 0, q.laneOverrides > 0 and call('HGET', B .. 'O' .. q.nr, 'weights')
  if not kept then return 0 end
  local digests, weights = {}, {}
  for at = 1, #kept - 17, 18 do
    digests[#digests + 1], weights[#weights + 1] = unpackStruct('>c16I2', kept, at)
  end
  for _, place in ipairs({ 'L', 'b', 'i' }) do
    for i, score in ipairs(call('ZMSCORE', B .. place .. q.nr, unpack(digests))) do
      if score then extra = extra + weights[i] - q.rule.weight end
    end
  end
  return extra
end

-- countWaiting counts the waiting jobs, their lanes and the sum of the weights of these lanes; head is the turn of the
-- first job in the lane without a key.
local function countWaiting(q)
  loadLanes(q)
  local first = call('ZRANGE', B .. 'w' .. q.nr, '0', '0', 'WITHSCORES')[2]
  local waiting = call('ZCARD', B .. 'w' .. q.nr) + q.keyedWaiting
  local bare = first and 1 or 0
  local counts = { waiting = waiting, lanes = bare, weights = bare, head = tonumber(first) }
  if not q.laned then return counts end
  for _, place in ipairs({ 'L', 'b', 'i' }) do
    local key = B .. place .. q.nr
    counts.lanes = counts.lanes + call('ZCARD', key)
    if call('ZSCORE', key, ZERO) then counts.lanes = counts.lanes - 1 end
  end
  counts.weights = bare + (counts.lanes - bare) * q.rule.weight + extraWeight(q)
  return counts
end

-- aheadOf returns the cost that departs before a job with so many jobs before it. behind is the distance of its turn
-- from the first turn. An ordinary job has no lane and no priority.
local function aheadOf(q, before, behind, cost, ordinary)
  local mostCost = max(q.maxCost, cost)
  if mostCost == 1 or q.mixed or not ordinary then return before end
  return min(behind, before * mostCost)
end

-- etaIsExact reports whether an ETA depends on the pace alone, as long as a drainer asks for the job. When workers ask
-- is up to them.
local function etaIsExact(q, counts)
  return q.size == counts.waiting and not q.paused and not q.mixed and q.maxInFlight == 0 and not q.ordered
    and not q.pull and not q.limits and not q.hours and not q.group and not q.adapt
    and not (q.stop and (q.stop > now or q.receiver.opened > 0))
end

-- etaOfNew returns the ETA of a job that has i jobs before it in its lane, while n other jobs wait in all, and the
-- weights of the other lanes add up to m. It also returns what decides the ETA, the quota if one does, and whether it
-- is the parent's.
local function etaOfNew(q, h, cost, behind, i, m, n)
  local rule = ruleOf(q, h.lane)
  local ahead = aheadOf(q, min(n, amongOthers(i, m, rule.weight)), behind, cost, h.flags < LANE)
  local goes = resumesAt(q)
  local at, quota, by = goes, nil, 'rate'
  if q.group ~= q then at, quota = outflowEta(q, ahead, goes) end
  if quota and quota.max > 0 then by = 'quota' end
  local rule = ruleOf(q, h.lane)
  local own, hours = at, rule.hours and limits.laneHours(q, rule)
  local limit
  if rule.paced then
    local l = bucketOf(q, h.lane, rule, now)
    local since = max(goes, l.stop or 0)
    own = paceEta(l, i, since, l.stop, hours)
    for _, of in ipairs(l.limits or {}) do
      local its = budgetEta(of, { hours = hours }, i, since, q)
      if its > own then own, limit = its, of end
    end
  elseif q.receiver then
    own = receiver.stopsUntil(q, h.lane) or at
  end
  if own > at then at, quota, by = own, limit, 'lane_rate' end
  local of
  if q.group then
    local together, its = groupEta(q, ahead, n, cost, 0, goes)
    if together > at then at, by, quota, of = together, its and its.max > 0 and 'quota' or 'parent', its, true end
  end
  if q.timed or q.group and q.group.timed then at = limits.commonHours(q, hours, at) end
  return at, by, quota, of
end

-- etaOf returns the position and the ETA of a waiting or scheduled job, and what decides the ETA, as etaOfNew does. f
-- is its lease record, if it has one.
local function etaOf(q, counts, id, job, f)
  local h = headOf(job, 27)
  local W, head, weight = waitingKey(q, h.lane), counts.head or 0, ruleOf(q, h.lane).weight
  if not f or f.state == S.waiting then
    local i = call('ZRANK', W, id) or 0
    return i + 1, etaOfNew(q, h, costOf(job), (tonumber(call('ZSCORE', W, id)) or head) - head, i,
      counts.weights - weight, counts.waiting - 1)
  end
  local i, own = call('ZCOUNT', W, '-inf', string.format('(%.0f', f.turn)), call('ZCARD', W) > 0 and 1 or 0
  local at, by, quota, together = etaOfNew(q, h, costOf(job), max(0, f.turn - (counts.head or f.turn)), i,
    counts.weights - own * weight, counts.waiting)
  return 0, max(f.due + skew, at), by, quota, together
end

-- etaDeferred returns the ETA of a deferred job, which departs after all waiting jobs and after the jobs before it on
-- the overflow.
local function etaDeferred(q, counts, cost, before, notBefore)
  local behind = q.turn - (counts.head or q.turn)
  local ahead = aheadOf(q, counts.waiting, behind, cost, true) + before
  local goes = resumesAt(q)
  local at = q.group == q and goes or outflowEta(q, ahead, goes)
  if q.group then at = max(at, (groupEta(q, ahead, counts.waiting, cost, before, goes))) end
  if q.timed or q.group and q.group.timed then at = limits.commonHours(q, nil, at) end
  return max(at, notBefore + skew)
end
