-- needs: lanes, leases, agenda
-- gives: countLane, countInLane, takePlaceAway, needsNoPlace, placeLane, putWaiting, removeWaiting
-- gives: costUnder, leaveFlight, putBack, uncountInLane, endInLane, lanesResumeAt, enterLane, putOnAgendaSooner
-- gives: rechargeLane
--
-- Which lanes are ready, resting or busy, their counts, and the jobs that enter and leave. A lane with waiting jobs has
-- a place in one of three sets: L (ready), b (resting or busy) or i (to be made ready after a change of rules).

-- countLane adds to a count of a lane, and drops the count when it is 0. Lanes that hold jobs are also in a sorted set,
-- in whose order they are listed.
local function countLane(q, suffix, lane, by)
  local key = B .. suffix .. q.nr
  local n = redis.pcall('HINCRBY', key, lane, by)
  if type(n) ~= 'number' or n <= 0 or suffix == 'h' and n % HELD == 0 then
    call('HDEL', key, lane)
    if suffix == 'h' then call('ZREM', B .. 'u' .. q.nr, lane) end
  elseif n == by and suffix == 'h' then
    call('ZADD', B .. 'u' .. q.nr, 0, lane)
  end
end

-- countInLane adds to the jobs, and their bytes, that the queue holds of a lane with a key.
local function countInLane(q, lane, jobs, bytes) countLane(q, 'h', lane, bytes * HELD + jobs) end

-- costUnder returns the cost of the job with an id.
local function costUnder(q, id)
  local cost = redis.pcall('GETRANGE', B .. 'j' .. q.nr .. ':' .. id, 24, 25)
  return type(cost) == 'string' and #cost == 2 and unpackStruct('>I2', cost) or 1
end

-- makeReady makes a lane ready that had no place, or kept a tag while it rested. Without one its tag needs the cost of
-- its first job, which is read if it is not given. A lane whose key holds something else is tried again later: it must
-- not stop the jobs of other lanes.
local function makeReady(q, lane, cost, kept)
  if not cost then
    local first = redis.pcall('ZRANGE', waitingKey(q, lane), 0, 0)
    if first.err then return call('ZADD', B .. 'b' .. q.nr, now + 2 * SECOND, lane) end
    cost = first[1] and costUnder(q, first[1])
  end
  if cost then
    local tag = q.served + tagLength(cost, ruleOf(q, lane).weight)
    if kept and kept > 0 then tag = max(kept, q.served - tagLength(1, 1)) end
    call('ZADD', B .. 'L' .. q.nr, tag, lane)
  end
end

local function hasPlace(q, lane)
  for _, place in ipairs({ 'L', 'b', 'i' }) do
    if call('ZSCORE', B .. place .. q.nr, lane) then return true end
  end
  return false
end

local function takePlaceAway(q, lane)
  for _, place in ipairs({ 'L', 'b', 'i' }) do call('ZREM', B .. place .. q.nr, lane) end
end

-- needsNoPlace reports whether jobs leave a lane although it has no place: the lane without a key, unless ordered.
local function needsNoPlace(q, lane) return lane == ZERO and not q.ordered end

-- placeLane gives a place to a lane in which a first job has begun to wait.
local function placeLane(q, lane, cost)
  if not q.laned or needsNoPlace(q, lane) then return end
  if isBusy(q, lane) then call('ZADD', B .. 'b' .. q.nr, 'inf', lane) else makeReady(q, lane, cost) end
end

-- putWaiting puts a job into its lane. If no other job waited there the caller continues with placeLane.
local function putWaiting(q, lane, id, turn)
  call('ZADD', waitingKey(q, lane), turn, id)
  M.waiting = M.waiting + 1
  if lane ~= ZERO then set(q, 'keyedWaiting', q.keyedWaiting + 1) end
end

-- removeWaiting takes jobs that no longer wait out of the counts.
local function removeWaiting(q, lane, number)
  M.waiting = M.waiting - number
  if lane ~= ZERO then set(q, 'keyedWaiting', max(0, q.keyedWaiting - number)) end
end

-- placeAgain gives a lane that rested or was busy its next place.
local function placeAgain(q, lane)
  local at, l = restsUntil(q, lane, ruleOf(q, lane), now)
  if at > now then
    call('ZADD', B .. 'b' .. q.nr, at, lane)
  else
    call('ZREM', B .. 'b' .. q.nr, lane)
    makeReady(q, lane, nil, l and l.tag)
  end
end

-- releaseIfFree gives a lane its next place if it was busy with jobs in flight and no longer is. The lane without a key
-- may have been busy because the queue was ordered; it then needs no place.
local function releaseIfFree(q, lane)
  if call('ZSCORE', B .. 'b' .. q.nr, lane) ~= 'inf' or isBusy(q, lane) then return end
  if needsNoPlace(q, lane) then return call('ZREM', B .. 'b' .. q.nr, lane) end
  placeAgain(q, lane)
end

-- rechargeLane changes what the limits of a lane were charged for a departure, unless they have changed since. A lane
-- that rests may then leave sooner.
local function rechargeLane(q, lane, departed, change)
  local rule = ruleOf(q, lane)
  if not rule.limits then return end
  local b = bucketOf(q, lane, rule, now)
  if departed > b.changed + HORIZON then change(b) end
  keepBucket(q, lane, b)
  local rests = call('ZSCORE', B .. 'b' .. q.nr, lane)
  if rests and rests ~= 'inf' then placeAgain(q, lane) end
end

-- leaveFlight takes a job that is no longer in flight out of the count of its lane.
local function leaveFlight(q, lane)
  countLane(q, 'k', lane, -1)
  releaseIfFree(q, lane)
end

-- putBack returns a job that was in flight or scheduled to its lane; f is its lease record.
local function putBack(q, id, f)
  putWaiting(q, f.lane, id, f.turn)
  if f.inFlight then countLane(q, 'k', f.lane, -1) end
  if call('ZCARD', waitingKey(q, f.lane)) == 1 then placeLane(q, f.lane) elseif f.inFlight then
    releaseIfFree(q, f.lane)
  end
  f.inFlight = false
end

-- uncountInLane takes a job that the queue no longer holds out of the counts of its lane.
local function uncountInLane(q, f)
  if f.lane ~= ZERO then countInLane(q, f.lane, -1, -f.bytes) end
end

-- endInLane takes an ended job out of all counts of its lane; f is its lease record.
local function endInLane(q, f)
  uncountInLane(q, f)
  if f.inFlight then leaveFlight(q, f.lane) end
end

-- lanesResumeAt returns from when on the lanes of a queue let a job out, if its pace allows. It is -inf for now, and
-- nil if no job waits, or if a job in flight must end first.
local function lanesResumeAt(q)
  loadLanes(q)
  local plain = call('ZCARD', B .. 'w' .. q.nr)
  local waiting = plain + q.keyedWaiting
  if waiting == 0 or q.maxInFlight > 0 and q.size - waiting - call('ZCARD', B .. 't' .. q.nr) - call('ZCARD',
    B .. 'K' .. q.nr) >= q.maxInFlight then
    return nil
  end
  if plain > 0 and not (q.ordered and call('ZSCORE', B .. 'b' .. q.nr, ZERO)) then return -math.huge end
  if q.changedAgain or call('ZCARD', B .. 'L' .. q.nr) > 0 or call('ZCARD', B .. 'i' .. q.nr) > 0 then
    return -math.huge
  end
  local first = call('ZRANGE', B .. 'b' .. q.nr, '0', '0', 'WITHSCORES')[2]
  return first and first ~= 'inf' and tonumber(first) or nil
end

-- enterLane adds a new job as waiting or scheduled, and returns its state. before is how many jobs wait in its lane,
-- bytes what it takes of max_bytes.
local function enterLane(q, id, h, cost, before, bytes)
  loadLanes(q)
  if h.flags >= LANE then
    q.laned = '1'
    if not q.mixed then
      set(q, 'laned', '1')
      set(q, 'mixed', '1')
    end
  end
  local turn = q.turn - h.priority * PRIORITY_STEP
  set(q, 'turn', q.turn + cost)
  set(q, 'size', q.size + 1)
  set(q, 'bytes', q.bytes + bytes)
  if cost > q.maxCost then set(q, 'maxCost', cost) end
  if q.group and cost > q.group.groupMaxCost then set(q.group, 'groupMaxCost', cost) end
  if h.lane ~= ZERO then countInLane(q, h.lane, 1, bytes) end
  if h.expires < math.huge then trackDeadlines(q, { h.expires, id }, h.expires) end
  if h.notBefore > wall then
    call('HSET', B .. 'f' .. q.nr, id, packLease({ state = S.scheduled, attempts = 0, turn = turn, due = h.notBefore,
      epoch = NOBODY, fence = 0, bytes = bytes,
      settledEpoch = NOBODY, settledFence = 0, verdict = 0, lane = h.lane, reason = '' }))
    call('ZADD', B .. 't' .. q.nr, h.notBefore, id)
    M.scheduled = M.scheduled + 1
    return S.scheduled
  end
  putWaiting(q, h.lane, id, turn)
  if before == 0 then
    placeLane(q, h.lane, cost)
  elseif h.lane ~= ZERO and not hasPlace(q, h.lane) then
    placeLane(q, h.lane) -- it had lost its place; a visit places the lane without a key
  end
  return S.waiting
end

-- putOnAgendaSooner is putOnAgenda after a change by which a job may depart sooner than the agenda says. If so, it
-- wakes the watcher.
local function putOnAgendaSooner(q)
  local a, s = tonumber(call('ZSCORE', agendaKey(q, 'a'), q.group and q.group.nr or q.nr)),
    tonumber(call('ZSCORE', agendaKey(q, 's'), q.nr))
  local e = putOnAgenda(q, 'LT')
  if e and e < min(a or e + 1, s or e + 1) then wakeFor(e, q) end
end
