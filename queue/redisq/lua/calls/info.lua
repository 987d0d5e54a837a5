#!lua flags=allow-oom
-- needs: counters, pace, ended, page, versions, stored
-- for lanes: lanestate, eta, laneinfo
-- for limits: groups
-- for receiver: receiver
--
-- Read the state of queues.
--
-- ARGV[2..]   'get', name, digest of a lane or '' or 'list', after, limit or 'some', names
-- Returns  {name to continue with, or '', queues, skew (see clock.lua)}: for each {name, spec, revision, who paused it,
--          reason, since or 0, until or 0, waiting, scheduled, size, held, lanes with waiting jobs, the sum of
--          their weights, deferred, dead,
--          counters in order of COUNTERS, oldest waiting or 0, next departure, window of the outflow, count, previous
--          count, now, errors, tat, rem, last, last cost, cost of waiting jobs, of deferred jobs, readmitted jobs,
--          limits, group, parent, until when it stops or 0, the cause, why, failures in a row, when its circuit opened
--          or 0, time to the next probe, why, n and d of the rate, changes of the rate (see adapt.lua), since when or
--          when a job can leave or 0, 1 if all lanes are blocked, when the first scheduled job is due or 0, when a
--          client last asked for its jobs or 0, its bytes, their maximum, the bytes of its dead and deferred jobs,
--          the histograms of its estimates (learned.lua) or ''; of the lane: jobs waiting, size, tat, rem, last,
--          last cost, until when it stops or 0}, or {name, error}: limits as {tat, rem, last, last cost} or {end,
--          used}; group as {children, their weights, members with waiting jobs, their weights, waiting jobs, greatest
--          cost}, or empty; parent as such an entry, or empty

begin()
local names
if ARGV[2] == 'get' then
  names = { ARGV[3] }
elseif ARGV[2] == 'some' then
  names = { unpack(ARGV, 3) }
else
  names = call('ZRANGEBYLEX', B .. 'N', ARGV[3] == '' and '-' or '(' .. ARGV[3], '+', 'LIMIT', 0, tonumber(ARGV[4]))
end

-- firstLane returns the lane whose first job is shown as the oldest. Lanes that a changed rule is to make ready still
-- rest, or are busy, like the others.
local function firstLane(q)
  if not q.laned or call('ZCARD', B .. 'w' .. q.nr) > 0 then return ZERO end
  local lane, at
  for _, place in ipairs({ 'L', 'b', 'i' }) do
    local first = call('ZRANGE', B .. place .. q.nr, '0', '0', 'WITHSCORES')
    local score = first[2] == 'inf' and math.huge or tonumber(first[2])
    if score and (not at or score < at or score == at and comesAfter(lane, first[1])) then
      lane, at = first[1], score
    end
    if place == 'L' and lane then return lane end
  end
  return lane or ZERO
end

-- stopOf returns the stop and the circuit of a queue. After the end of a stop it corrects the bucket and the paces in
-- memory: they earned nothing during the stop.
local function stopOf(q)
  local h = q.receiver
  if not h then return 0, '', '', 0, 0, 0, '' end
  if q.stop and q.stop <= now and q.group ~= q then
    receiver.rise(q, q.stop)
    for _, l in ipairs(q.limits or {}) do
      if l.pace then receiver.rise(l, q.stop) end
    end
  end
  local on = h.stop > now
  return on and h.stop or 0, on and h.cause or '', on and h.reason or '', h.failures, h.opened,
    h.opened > 0 and h.probe or 0, h.opened > 0 and h.lastFailure or ''
end

local function limitsOf(q)
  local row = {}
  for i, l in ipairs(q.limits or {}) do
    row[i] = limits.stateOf(l)
  end
  return row
end

-- readyOf returns when a waiting job can leave, or since when it can, or 0; and 1 if only its lanes delay it.
local function readyOf(q, waiting)
  if waiting == 0 and not (q.group == q and q.groupWaiting > 0) then return 0, 0 end
  local at = tonumber(call('ZSCORE', agendaKey(q, 'a'), q.nr)) -- for a parent, of the group
  if q.group and q.pull then
    if at then return groups.pullsFrom(q, at) or 0, 0 end
  elseif q.group and q.group ~= q then
    local g = q.group.nr
    local own = tonumber(call('ZSCORE', B .. 'R' .. g, q.nr)) or call('ZSCORE', B .. 'Y' .. g, q.nr) and 0
    at = own and tonumber(call('ZSCORE', B .. 'a', g))
    at = at and max(at, own)
  end
  if at then return at, 0 end
  if waiting == 0 or not q.laned or q.asleep then return 0, 0 end
  local away = waiting + call('ZCARD', B .. 't' .. q.nr) + call('ZCARD', B .. 'K' .. q.nr)
  if q.maxInFlight > 0 and q.size - away >= q.maxInFlight then return 0, 0 end
  local from = lanestate.lanesResumeAt(q)
  if not from then return 0, 1 end
  return max(from, 0), from > 0 and 1 or 0
end

-- drained is when a drainer last asked for jobs of the partition, or 0.
local drained

local function askedOf(q, asked)
  if q.pull then return asked end
  drained = drained or tonumber(call('ZRANGE', B .. 'c', -1, -1, 'WITHSCORES')[2]) or 0
  return drained
end

local function show(nr, q, name)
  checkKeys(q)
  checkDeadKeys(name)
  trimDead(q)
  local by, reason, since, window, count, previous, costBehind, bytesBehind, asked, changes, costs = unpack(call(
    'HMGET', B .. 'q' .. nr, 'pausedBy', 'pauseReason', 'pausedSince', 'outflowStart', 'outflowCur', 'outflowPrev',
    'deferredCost', 'deferredBytes', 'lastAsked', 'rateChanges',
    'learned'))
  if not q.paused then by, reason, since = '', '', 0 end
  withLanes(q)
  local counts = eta.countWaiting(q)
  local till, cause, why, failures, opened, probe, fault = stopOf(q)
  local head = call('ZRANGE', lanes.waitingKey(q, firstLane(q)), 0, 0)
  local oldest = 0
  if head[1] then
    local start = call('GETRANGE', jobKey(nr, head[1]), 0, 7)
    if #start == 8 then oldest = timeAt(start) end
  end
  local row = { name, specOf(name), q.revision, by or '', reason or '', tonumber(since) or 0, q.pausedUntil or 0,
    counts.waiting, call('ZCARD', B .. 't' .. nr), q.size, call('ZCARD', B .. 'K' .. nr), counts.lanes,
    counts.weights, max(q.deferred, q.behind),
    call('ZCARD', B .. 'd:' .. name), countersOf(q), oldest, nextDeparture(q), tonumber(window) or 0,
    tonumber(count) or 0, tonumber(previous) or 0, now, call('LRANGE', B .. 'r' .. nr, 0, 9), q.tat, q.rem, q.last,
    q.lastCost, eta.aheadOf(q, counts.waiting, q.turn - (counts.head or q.turn), 1, true), tonumber(costBehind) or 0,
    q.readmitted, limitsOf(q),
    q.group == q and { groups.countChildren(name), q.childrenWeight,
      q.membersWaiting, q.membersWeight, q.groupWaiting, q.groupMaxCost } or {},
    ARGV[2] == 'get' and name == ARGV[3] and q.group and q.group ~= q and show(q.group.nr, q.group, q.group.name) or {},
    till, cause, why, failures, opened, probe, fault, q.n, q.d, changes and cmsgpack.unpack(changes) or {} }
  local ready, rest = readyOf(q, counts.waiting)
  for _, value in ipairs({ ready, rest, tonumber(call('ZRANGE', B .. 't' .. nr, '0', '0', 'WITHSCORES')[2]) or 0,
    askedOf(q, tonumber(asked) or 0), q.bytes, byteLimit(q),
    (q.deadBytes or 0) + 0, tonumber(bytesBehind) or 0, costs or '' }) do
    row[#row + 1] = value
  end
  if ARGV[2] == 'get' and name == ARGV[3] and ARGV[4] ~= '' then laneinfo.laneOf(q, ARGV[4], row) end
  return row
end

local out = {}
for _, name in ipairs(names) do
  -- A queue with broken keys must not hide the others.
  local ok, row = pcall(function()
    local nr = numberOf(name)
    local q = nr and load(nr)
    return q and show(nr, q, name)
  end)
  if not ok then row = { name, errorText(row) } end
  if row then out[#out + 1] = row end
end
finish()
return { ARGV[2] == 'list' and #names == tonumber(ARGV[4]) and names[#names] or '', out, skew }
