-- needs: lanestate, turnorder, departures, stored
-- gives: visitedLane, firstId, firstJob, beginVisit, chooseLane, hasLaneBy, passOver, noteDeparture, writeTurns
-- gives: chooseAgain
--
-- A visit to a queue with lanes, which take turns. All is worked out in memory; writeTurns writes it at the end.
--
-- A lane in a visit has its place, 'L' (at is its tag), 'b' (at is until when it rests) or nil; from is its stored
-- place.

local MOST_READIED, MOST_PUT_OFF, CHANGED_AT_ONCE = 100, 100, 100

local function visitedLane(v, lane, at, from)
  local q = v.q
  local rule = ruleOf(q, lane)
  local l = { lane = lane, tie = lane, at = tonumber(at), from = from, place = from, W = waitingKey(q, lane),
    rule = rule, limit = inFlightLimit(q, rule),
    ids = {}, turns = {}, jobs = {}, entries = {}, pos = 1, page = 2, ahead = 1, loaded = 0, granted = 0, unfit = 0,
      unfitBytes = 0 }
  v.all[#v.all + 1] = l
  return l
end

-- firstId returns the first job of a lane that this visit has not handled.
local function firstId(v, l)
  if l.pos > #l.ids and not l.read then
    local found = redis.pcall('ZRANGE', l.W, #l.ids, #l.ids + l.page - 1, 'WITHSCORES')
    if found.err then
      v.errors[#v.errors + 1] = found.err
      l.place, l.at, l.read = 'b', now + 2 * SECOND, true
      return nil
    end
    for i = 1, #found, 2 do
      l.ids[#l.ids + 1] = found[i]
      l.turns[#l.turns + 1] = tonumber(found[i + 1])
    end
    l.read = #found < 2 * l.page
    l.page = min(2 * l.page, 32)
  end
  return l.ids[l.pos]
end

-- firstJob returns that job with its turn, its record and its lease record. It reads further ahead the more of the lane
-- has gone.
local function firstJob(v, l)
  local id = firstId(v, l)
  if not id then return nil end
  local at = l.pos
  if at > l.loaded then
    local q, ids, keys = v.q, {}, {}
    for i = at, min(#l.ids, at + l.ahead - 1) do
      ids[#ids + 1] = l.ids[i]
      keys[#keys + 1] = jobKey(q.nr, l.ids[i])
    end
    local jobs, entries = call('MGET', unpack(keys)), call('HMGET', B .. 'f' .. q.nr, unpack(ids))
    for i = 1, #ids do l.jobs[at + i - 1], l.entries[at + i - 1] = jobs[i], entries[i] end
    l.loaded, l.ahead = at + #ids - 1, min(2 * l.ahead, 32)
  end
  return id, l.turns[at], l.jobs[at], l.entries[at]
end

-- makeLaneReady gives a lane that becomes ready its tag: the one that its last departure left, if it may have rested
-- for its own rate since.
local function makeLaneReady(v, l)
  local q, tag = v.q, 0
  l.place = nil
  local id = firstId(v, l)
  if not id then return end
  if l.bucket then
    tag = l.bucket.tag
  elseif l.rule.paced then
    local b, moved = bucketOf(q, l.lane, l.rule, now)
    tag = b.tag
    if not moved then l.bucket = b end
  end
  l.place = 'L'
  l.at = tag > 0 and max(tag, q.served - tagLength(1, 1)) or q.served + tagLength(costUnder(q, id), l.rule.weight)
  insert(v.ready, l)
end

local function putOffUntil(v, l, at)
  l.place, l.at = 'b', at
  if at < math.huge then insert(v.resting, l) end
end

-- beginVisit begins a visit. moved counts lanes that were looked at. All members of a group share it: otherwise a visit
-- to a thousand children would look at a hundred lanes of each.
local function beginVisit(q, moved)
  moved = moved or { readied = 0, changed = 0 }
  local v = { q = q, all = {}, errors = {}, ready = {}, resting = {}, moved = moved, putOff = 0,
    unread = {}, at = 1, rank = 0, key = B .. 'L' .. q.nr,
      came = function(v, lane, at) return visitedLane(v, lane, at, 'L') end }
  local changed = moved.changed < CHANGED_AT_ONCE and call('ZRANGE', B .. 'i' .. q.nr, 0,
    CHANGED_AT_ONCE - moved.changed - 1) or {}
  moved.changed = moved.changed + #changed
  for _, lane in ipairs(changed) do makeLaneReady(v, visitedLane(v, lane, 0, 'i')) end
  if call('ZCARD', B .. 'w' .. q.nr) > 0 then
    if not hasPlace(q, ZERO) then makeLaneReady(v, visitedLane(v, ZERO, 0, nil)) end
  end
  -- When the last lanes of one change of rules have been made ready, those of the next change follow.
  v.follow = q.changedAgain and call('ZCARD', B .. 'i' .. q.nr) == #changed
  if v.follow then return v end
  -- One more than may become ready is read, to know whether there are others.
  local rested = call('ZRANGEBYSCORE', B .. 'b' .. q.nr, '-inf', now + HORIZON, 'WITHSCORES', 'LIMIT', 0,
    MOST_READIED - moved.readied + 1)
  for i = #rested - 1, 1, -2 do v.resting[#v.resting + 1] = { tie = rested[i], at = tonumber(rested[i + 1]) } end
  return v
end

-- hasCredit reports whether the limits of a lane have enough for a departure of its first job at d.
local function hasCredit(v, l, d, job)
  l.changed = true
  return limits.hasCredit(l.bucket, d, { q = v.q, cost = costOf(job), job = job })
end

-- laneOpens returns when a lane lets its next job out, not before d.
local function laneOpens(v, l, d)
  local opens = laneNext(l.bucket, d)
  return l.rule.hours and limits.nextOpen(limits.laneHours(v.q, l.rule), opens) or opens
end

-- chooseLane returns the lane whose turn it is, for a departure at d; nil if no lane is ready, or too many were put
-- off.
local function chooseLane(v, d)
  local q = v.q
  while v.moved.readied < MOST_READIED and v.resting[1] and v.resting[#v.resting].at <= d do
    local l = table.remove(v.resting)
    v.moved.readied = v.moved.readied + 1
    makeLaneReady(v, l.lane and l or visitedLane(v, l.tie, l.at, 'b'))
  end
  while v.putOff < MOST_PUT_OFF do
    local l = pick(v)
    if not l then return nil end
    local opens, job = d, nil
    if l.limit > 0 and inFlight(q, l.lane) + l.granted >= l.limit then
      opens = math.huge
    elseif l.rule.paced then
      if not l.bucket then l.bucket, l.changed = bucketOf(q, l.lane, l.rule, d) end
      local _, _, first = firstJob(v, l)
      if first and #first >= 28 then job = first end
      if job and coverLane(l.bucket, costOf(job)) then l.changed = true end
      opens = reign.apartIn(l.bucket, laneNext(l.bucket, d))
    elseif q.receiver then
      opens = max(d, receiver.stopsUntil(q, l.lane) or d)
    end
    if l.rule.hours and opens < math.huge then opens = limits.nextOpen(limits.laneHours(q, l.rule), opens) end
    if opens <= d and job and l.rule.limits and not hasCredit(v, l, d, job) then opens = laneOpens(v, l, d) end
    if opens <= d then return l end
    putOffUntil(v, l, opens)
    v.putOff = v.putOff + 1
  end
end

-- chooseAgain returns a chosen lane to its place.
local function chooseAgain(v, l) insert(v.ready, l) end

-- hasLaneBy reports whether a lane is ready, or will be by an instant.
local function hasLaneBy(v, at)
  return v.ready[1] or unread(v) or v.resting[1] and v.resting[#v.resting].at <= at
end

-- passOver passes over a job that does not depart: it has expired, or is gone, and then job is nil.
local function passOver(v, l, id, job)
  local bytes
  if job then
    bytes = bytesOf(id, #job)
  else
    local count, held = laneSize(v.q, l.lane)
    bytes = count > 0 and floor(held / count) or 0
  end
  l.unfit, l.unfitBytes, l.pos = l.unfit + 1, l.unfitBytes + bytes, l.pos + 1
  if firstId(v, l) then insert(v.ready, l) elseif l.place == 'L' then l.place = nil end
end

-- noteDeparture puts a lane in its next place after one of its jobs was granted, to depart at d.
local function noteDeparture(v, l, cost, d)
  local q, job = v.q, l.jobs[l.pos]
  l.granted, l.pos = l.granted + 1, l.pos + 1
  q.served = max(q.served, l.at)
  set(q, 'served', q.served)
  l.at = l.at + tagLength(cost, l.rule.weight)
  local b = l.bucket
  if b then
    reign.shiftOne(b)
    if b.stop then receiver.rise(b, b.stop) end
    takeAt(b, d, d, cost)
    if b.limits then limits.chargeBudgets(b, d, { q = q, cost = cost, job = job }) end
    b.tag, l.changed = l.at, true
  end
  if not firstId(v, l) then
    if l.place == 'L' then l.place = nil end
  elseif l.limit > 0 and inFlight(q, l.lane) + l.granted >= l.limit then
    putOffUntil(v, l, math.huge)
  elseif b and laneNext(b, d) > d then
    putOffUntil(v, l, laneOpens(v, l, d))
  else
    insert(v.ready, l)
  end
end

local function writeTurns(v)
  local q, addTo, outOf = v.q, { L = {}, b = {} }, { L = {}, b = {}, i = {} }
  for _, l in ipairs(v.all) do
    local taken = l.granted + l.unfit
    if taken > 0 then
      call('ZREMRANGEBYRANK', l.W, 0, taken - 1)
      removeWaiting(q, l.lane, taken)
    end
    if l.granted > 0 and not needsNoPlace(q, l.lane) then countLane(q, 'k', l.lane, l.granted) end
    if l.unfit > 0 and l.lane ~= ZERO then countInLane(q, l.lane, -l.unfit, -l.unfitBytes) end
    if l.changed then keepBucket(q, l.lane, l.bucket) end
    if l.from and l.from ~= l.place then table.insert(outOf[l.from], l.lane) end
    if l.place then
      table.insert(addTo[l.place], l.at)
      table.insert(addTo[l.place], l.lane)
    end
  end
  for place, members in pairs(outOf) do
    if members[1] then call('ZREM', B .. place .. q.nr, unpack(members)) end
  end
  if v.follow then
    if call('EXISTS', B .. 'b' .. q.nr) > 0 then call('RENAME', B .. 'b' .. q.nr, B .. 'i' .. q.nr) end
    call('HDEL', B .. 'q' .. q.nr, 'changedAgain')
    q.changedAgain = false
  end
  for place, members in pairs(addTo) do
    if members[1] then call('ZADD', B .. place .. q.nr, unpack(members)) end
  end
end
