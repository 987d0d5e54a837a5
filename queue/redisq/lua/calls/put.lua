#!lua flags=allow-oom
-- needs: run, revision, changelog, newqueues, ruleusers, adapt, agenda, pause
-- for backlog: backlog
-- for lanes: lanestate
-- for limits: limitchange, membership
-- for receiver: receiver
--
-- Create a queue or change its spec.
--
-- ARGV[2]  how many of the following are arguments. They are names and values:
--          name; spec, its canonical JSON; n, d, burst; expect, the revision (0: must not exist, -1: any);
--          stamp of this call; most_children of a name; pull, '1' or ''; rules of its group that it names, separated by
--          spaces;
--          adapt, the rule of its adapted rate or '' (adapt.lua); by, the actor; again, '1' if the spec is an earlier
--          one; digest of the showable text of the spec, and shown, that text unless it is the spec;
--          limits, how many, and of each limit.I.name, n, d, burst, max, period, phase and ends (limits.lua);
--          calendars_until, until when their calendars are known far enough, or '';
--          lane:DIGEST, the rule of a single lane
-- then     the settings that scripts use and what follows from them, by the names of the table of settings: fields that
--          the queue keeps as they are, except for empty ones
-- Returns  {revision, created, changed, conflict, children}, conflict 2 if there are too many children, 3 if a pull
--          queue would have children, 4 if it would be a child of a pull queue; 5 if a rule does not exist, 6 if it is
--          of concurrency: for these two the rule's index is in place of children

local LIMIT_ENDS = 8 -- in the packed rule of a limit

begin()
checkRun()
local arg, ownLanes, settings, kept, gone = {}, {}, {}, {}, { 'endedLookAt' }
local behind = 2 + tonumber(ARGV[2])
for i = 3, behind, 2 do
  local lane = string.match(ARGV[i], '^lane:(.*)$')
  if lane then
    ownLanes[#ownLanes + 1], ownLanes[#ownLanes + 2] = lane, ARGV[i + 1]
  else
    arg[ARGV[i]] = ARGV[i + 1]
  end
end
for i = behind + 1, #ARGV, 2 do
  local setting, value = ARGV[i], ARGV[i + 1]
  settings[setting] = value
  if value == '' then
    gone[#gone + 1] = setting
  elseif not TERMS[setting] then
    kept[#kept + 1], kept[#kept + 2] = setting, value
  end
end
local name, spec, expect, pull, ruled = arg.name, arg.spec, tonumber(arg.expect), arg.pull, arg.rules
local n, d, burst = tonumber(arg.n), tonumber(arg.d), tonumber(arg.burst)
local nr = numberOf(name)
local q = nr and load(nr)
local rev, created = q and q.revision or 0, not q
local was = rev

-- limitRules returns the rules of the limits.
local function limitRules()
  local rules = {}
  for i = 1, tonumber(arg.limits) do
    local limit = 'limit.' .. i .. '.'
    local rule = { arg[limit .. 'name'] }
    for k, field in ipairs({ 'n', 'd', 'burst', 'max', 'period', 'phase' }) do
      rule[k + 1] = tonumber(arg[limit .. field])
    end
    rule[LIMIT_ENDS] = arg[limit .. 'ends']
    rules[i] = rule
  end
  return rules
end

-- checkSpec returns the answer to a spec that conflicts with other queues or with rules, nil if none does.
local function checkSpec()
  if pull == '1' and groups.countChildren(name) > 0 then return { rev, 0, 0, 3, groups.countChildren(name) } end
  local base = created and membership.parentOf(name)
  local over = base and numberOf(base)
  if over and readQueue(over).pull then return { rev, 0, 0, 4 } end
  if created and not base then membership.childNumbers(name) end
  if base and groups.countChildren(base) >= tonumber(arg.most_children) then return { rev, 0, 0, 2 } end
  if ruled == (q and q.ruleNames or '') then return nil end
  local i = 0
  for rule in string.gmatch(ruled, '%S+') do
    local algorithm = call('HGET', ruleKey(rule), 'algorithm')
    if not algorithm or algorithm == 'concurrency' then return { rev, 0, 0, algorithm and 6 or 5, i } end
    i = i + 1
  end
  checkRuleKeys()
end

-- firstPaces sets the bucket and the limits of a new queue. They continue from a deleted queue of the same name, while
-- its paces can still delay a departure.
local function firstPaces(rules)
  local before, grave = {}, call('HGET', B .. 'x', name)
  if grave and (tonumber(call('ZSCORE', B .. 'X', name)) or 0) > now then
    local limits
    q.tat, q.last, q.lastCost, q.n, q.d, q.burst, limits = unpackStruct('>I7I7I2I7I7I7', grave)
    before = limitchange.keptLimits(sub(grave, limits))
    change(q, n, d, burst, now, now + HORIZON)
  end
  if grave then
    call('HDEL', B .. 'x', name)
    call('ZREM', B .. 'X', name)
  end
  if rules[1] then q.limits = limitchange.carryOverLimits(rules, before) end
  -- In a later run than the store's first, a queue of this name may have granted departures and been lost.
  if M.runSince > 0 then
    delay(q, M.runSince + HORIZON, q.maxCost)
    q.coveredCost = q.maxCost
  end
end

-- create makes the queue.
local function create(rules)
  local left = call('HGET', B .. 'R', name) -- what is kept of its dead jobs, see dead.lua
  call('HDEL', B .. 'R', name)
  local seq = tostring(call('HINCRBY', B, 'qseq', 1))
  -- Numbers sort as text in the order in which they were made, and stay short.
  nr = (#seq > 1 and string.char(95 + #seq) or '') .. seq
  q = { nr = nr, name = name, n = n, d = d, burst = burst, tat = 0, rem = 0, last = 0, lastCost = 0, lastFence = 0,
    size = 0, bytes = 0, turn = 9 * 2 ^ 49, maxCost = 1, promised = 0, readmitted = 0, deferred = 0, behind = 0,
    appended = 0, coveredCost = MAX_COST, epoch = M.run, pause = '', changes = {} }
  firstPaces(rules)
  -- The fields that every call reads come first, in the order in which it reads them (see fields.go).
  for _, field in ipairs(QUEUE) do call('HSET', B .. 'q' .. nr, field, '') end
  call('HSET', B .. 'q' .. nr, 'name', name, 'maxCostAtOpen', q.maxCost)
  if left and #left > 14 then call('HSET', B .. 'q' .. nr, 'dead_bytes', (unpackStruct('>I7', left, 15))) end
  call('HSET', B .. 'n', name, nr)
  call('ZADD', B .. 'N', 0, name)
  call('HINCRBY', B, 'queues', 1)
end

-- writeSpec writes the fields of the queue that follow from its spec; had are its limits before.
local function writeSpec(adapt, had)
  local Q = B .. 'q' .. nr
  if created then call('HSET', Q, 'made', rev) end
  q.n, q.d, q.burst, q.revision = n, d, burst, rev
  for setting, field in pairs(TERMS) do q[field] = tonumber(settings[setting]) or 0 end
  for _, value in ipairs(RECORDS) do q.changes[value] = true end
  save(q)
  call('HSET', Q, 'stamp', arg.stamp, unpack(kept))
  call('HDEL', Q, unpack(gone))
  if ruled ~= (q.ruleNames or '') then
    call('HSET', Q, 'ruleNames', ruled)
    askedAnew(groupOf(name))
  end
  call('HSET', Q, 'adapt', adapt or '')
  if not adapt then call('HDEL', Q, 'rateChanges') end
  if q.limits then
    call('HSET', Q, 'limits', limitchange.rulesOf(q.limits), 'limitsState', limits.limitStates(q.limits))
    if not limitchange.sameRules(q.limits, had) then call('HSET', Q, 'limitsChanged', now) end
  elseif not created then
    call('HDEL', Q, 'limits', 'limitsState', 'limitsChanged')
  end
end

-- rulesChanged replaces the rules of single lanes. Lanes that rest or are busy under the old rules are made ready, a
-- few at a time: there may be a million. If some of an earlier change are left, the lanes of this change follow when
-- those are done.
local function rulesChanged()
  local putOff, changed = B .. 'b' .. nr, B .. 'i' .. nr
  call('UNLINK', B .. 'O' .. nr)
  if ownLanes[1] then call('HSET', B .. 'O' .. nr, unpack(ownLanes)) end
  local underWay = call('EXISTS', changed) > 0
  call('HSET', B .. 'q' .. nr, 'changedAgain', underWay and '1' or '')
  if not underWay and call('EXISTS', putOff) > 0 then call('RENAME', putOff, changed) end
end

-- specChanged applies the spec to what an existing queue is doing.
local function specChanged(byLanes)
  membership.saveLinks(q)
  if q.group == q then set(q, 'groupSince', now) end
  if settings.circuit == '' and q.receiver and q.receiver.opened > 0 then receiver.closeCircuit(q) end
  if q.receiver then receiver.retarget(q) end
  if q.pauseEndedAt then setPause(q, '') end
  q.laned, q.keyedWaiting = byLanes ~= '' and byLanes or nil, nil -- to be read again
  local e = putOnAgenda(q)
  if e then wakeFor(e, q) end
  if hasBacklog(q) then announceRoom(q) end
end

-- This very call, repeated after a lost reply.
if q and call('HGET', B .. 'q' .. nr, 'stamp') == arg.stamp then
  return { rev, rev == tonumber(call('HGET', B .. 'q' .. nr, 'made')) and 1 or 0, 1, 0 }
end
if expect >= 0 and expect ~= rev then return { rev, 0, 0, 1 } end
if q and specOf(name) == spec then return { rev, 0, 0, 0 } end
local rules = limitRules()
withLimits(q or {})
local conflict = checkSpec()
if conflict then return conflict end

checkChangeKeys('queue', name, arg.by)
for _, key in ipairs({ 'a', 's', 'pa', 'ps' }) do call('ZCARD', B .. key) end
local byLanes = q and q.laned or ''
for _, field in ipairs({ 'max_in_flight', 'max_scheduled', 'ordered', 'lanes', 'regime' }) do
  if settings[field] ~= '' then byLanes = '1' end
end
if q then
  withLanes(q) -- this checks the types
  if byLanes ~= '' and not q.laned then lanes.checkLaneKeys(q) end
end
local regime = byLanes ~= '' and call('HGET', B .. 'q' .. (nr or ''), 'regime') or ''

local adapt
n, d, adapt = adaptedRateOf(q or {}, arg.adapt, n, d)
local had = q and q.limits or {}
if created then
  create(rules)
else
  if n ~= q.n or d ~= q.d or burst ~= q.burst then change(q, n, d, burst, now, now + HORIZON) end
  q.limits = rules[1] and limitchange.carryOverLimits(rules, q.limits or {}) or nil
end
rev = nextRevision()
writeSpec(adapt, had)
if byLanes ~= '' and regime ~= settings.regime then rulesChanged() end
if arg.calendars_until ~= '' then
  call('ZADD', B .. 'E', arg.calendars_until, name)
  M.firstChore = min(M.firstChore, arg.calendars_until + 0)
else
  call('ZREM', B .. 'E', name)
end
if pull ~= (q.pull or '') then
  call('ZREM', agendaKey(q, 'a'), nr)
  call('ZREM', agendaKey(q, 's'), nr)
  set(q, 'pull', pull == '1' and pull or nil)
end
logPauseEnd(q)
if created then unmarkDeleted('queue', name) end
local what = arg.again == '1' and 'rolled_back' or created and 'created' or 'changed'
keepVersion('queue', name, rev, packText(arg.digest, arg.shown, spec))
logChange('queue', name, wall, arg.by, what, rev, was, '', '', 0)
if created then membership.joinGroup(q, name) else specChanged(byLanes) end
if byLanes ~= '' then set(q, 'laned', '1') end
save(q)
finish()
return { rev, created and 1 or 0, 1, 0 }
