#!lua flags=allow-oom
-- needs: revision, changelog, create, agenda, pause, learned
-- for backlog: backlog
-- for lanes: lanestate
-- for limits: limitchange, membership
-- for receiver: receiver
--
-- Create a queue or change its spec.
--
-- ARGV[2..11] name; spec, its canonical JSON; expected revision (0: must not exist, -1: any); stamp of this call; most
--          children of a name; rules of its group that it names, separated by spaces; by, the actor; again, '1' if the
--          spec is an earlier one; digest of the showable text of the spec, and that text unless it is the spec
-- then     the settings of the spec, see create.lua
-- Returns  {revision, created, changed, conflict, children}, conflict 2 if there are too many children, 3 if a pull
--          queue would have children, 4 if it would be a child of a pull queue; 5 if a rule does not exist, 6 if it is
--          of concurrency: for these two the rule's index is in place of children

begin()
checkRun()
local name, spec, expect, stamp, children, ruled, by, again, digest, shown = unpack(ARGV, 2, 11)
local s = specFrom(12)
local settings, n, d, burst, pull = s.settings, s.n, s.d, s.burst, s.pull
expect = tonumber(expect)
local nr = numberOf(name)
local q = nr and load(nr)
local rev, created = q and q.revision or 0, not q
local was = rev

-- writeSpec writes the fields of an existing queue that follow from its spec; had are its limits before.
local function writeSpec(adapt, had)
  local Q = B .. 'q' .. nr
  q.n, q.d = n, d
  setTerms(q, s, rev)
  for _, value in ipairs(RECORDS) do q.changes[value] = true end
  save(q)
  call('HSET', Q, 'stamp', stamp, unpack(s.kept))
  call('HDEL', Q, unpack(s.gone))
  if ruled ~= (q.ruleNames or '') then
    call('HSET', Q, 'ruleNames', ruled)
    askedAnew(groupOf(name))
  end
  call('HSET', Q, 'adapt', adapt or '')
  if not adapt then call('HDEL', Q, 'rateChanges') end
  if q.limits then
    call('HSET', Q, 'limits', limitchange.rulesOf(q.limits), 'limitsState', limits.limitStates(q.limits))
    if not limitchange.sameRules(q.limits, had) then call('HSET', Q, 'limitsChanged', now) end
  else
    call('HDEL', Q, 'limits', 'limitsState', 'limitsChanged')
  end
  if q.timed then call('HSET', Q, 'hours', q.timed) else call('HDEL', Q, 'hours') end
  restoreLearned(q)
end

-- rulesChanged replaces the rules of single lanes. Lanes that rest or are busy under the old rules are made ready, a
-- few at a time: there may be a million. If some of an earlier change are left, the lanes of this change follow when
-- those are done.
local function rulesChanged()
  local putOff, changed = B .. 'b' .. nr, B .. 'i' .. nr
  call('UNLINK', B .. 'O' .. nr)
  if s.ownLanes[1] then call('HSET', B .. 'O' .. nr, unpack(s.ownLanes)) end
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
  if q.group == q then groups.wakeClaims(q) end
  if hasBacklog(q) then announceRoom(q) end
end

-- changeSpec gives an existing queue the spec.
local function changeSpec()
  local byLanes = (q.laned or s.byLanes ~= '') and '1' or ''
  withLanes(q) -- this checks the types
  if byLanes ~= '' and not q.laned then lanes.checkLaneKeys(q) end
  local regime = byLanes ~= '' and call('HGET', B .. 'q' .. nr, 'regime') or ''
  local adapt
  n, d, adapt = adaptedRateOf(q, s.adapt, n, d)
  local had = q.limits or {}
  if n ~= q.n or d ~= q.d or burst ~= q.burst then change(q, n, d, burst, now, now + HORIZON) end
  q.limits = s.rules[1] and limitchange.carryOverLimits(s.rules, had) or nil
  limits.setHours(q, s.hours)
  rev = nextRevision()
  writeSpec(adapt, had)
  if byLanes ~= '' and regime ~= settings.regime then
    rulesChanged()
  elseif s.ownLanes[1] then
    call('HSET', B .. 'O' .. nr, unpack(s.ownLanes)) -- the hours of lanes are known further ahead
  end
  if not s.calendarsUntil then call('ZREM', B .. 'E', name) end
  noteCalendars(name, s)
  if pull ~= (q.pull or '') then
    call('ZREM', agendaKey(q, 'a'), nr)
    call('ZREM', agendaKey(q, 's'), nr)
    set(q, 'pull', pull == '1' and pull or nil)
    if q.group then groups.leaveTurns(q) end
  end
  if q.group then groups.reweigh(q, tonumber(settings.weight) or 1) end
  return byLanes
end

-- This very call, repeated after a lost reply.
if q and call('HGET', B .. 'q' .. nr, 'stamp') == stamp then
  return { rev, rev == tonumber(call('HGET', B .. 'q' .. nr, 'made')) and 1 or 0, 1, 0 }
end
if expect >= 0 and expect ~= rev then return { rev, 0, 0, 1 } end
if q and specOf(name) == spec then return { rev, 0, 0, 0 } end
withLimits(q or {})
local conflict, about = checkSpec(name, s, ruled, q, tonumber(children))
if conflict then return { rev, 0, 0, conflict, about } end

checkChangeKeys('queue', name, by)
for _, key in ipairs({ 'a', 's', 'pa', 'ps' }) do call('ZCARD', B .. key) end
local byLanes
if created then
  rev = nextRevision()
  local graves, left = formerOf({ name })
  q = create(call('HINCRBY', B, 'qseq', 1), name, s, ruled, rev, graves[1], left[1])
  writeCreated(q, s, { 'stamp', stamp })
  listCreated({ name, q.nr }, { 0, name })
  unmarkDeleted('queue', { name })
else
  byLanes = changeSpec()
  logPauseEnd(q)
end
keepVersion('queue', name, rev, packText(digest, shown, spec))
logChange('queue', name, wall, by, again == '1' and 'rolled_back' or created and 'created' or 'changed', rev, was, '',
  '', 0)
if created then membership.joinGroup(q, name) else specChanged(byLanes) end
if byLanes == '1' then set(q, 'laned', '1') end
save(q)
finish()
return { rev, created and 1 or 0, 1, 0 }
