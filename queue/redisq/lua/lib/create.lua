-- needs: run, newqueues, ruleusers, notforqueues, adapt, departures
--
-- How a queue is made.
--
-- A script gets the settings of a spec as: how many names and values follow, and these: n, d, burst; pull, '1' or '';
-- adapt, the rule of its adapted rate or '' (adapt.lua); limits, how many, and of each limit.I.name, n, d, burst, max,
-- period, phase, ends, unit and ramp (limits.lua); hours (limits.lua); calendars_until, until when calendars and hours
-- are known far enough, or ''; lane:DIGEST, the rule of a single lane, and lane:hNUMBER, hours of lanes. Then: how
-- many names and values follow, and these: the settings that scripts use and what follows from them, by the names of
-- the table of settings. The queue keeps them as fields, except for empty ones.

local LIMIT_ENDS = 8 -- in the packed rule of a limit; unit and ramp follow

-- specFrom reads the settings of a spec from the arguments that begin at an index. It returns them and the index behind
-- them.
local function specFrom(at)
  local arg, s = {}, { ownLanes = {}, settings = {}, kept = {}, gone = { 'endedLookAt' }, rules = {} }
  local behind = at + tonumber(ARGV[at])
  for i = at + 1, behind, 2 do
    local lane = string.match(ARGV[i], '^lane:(.*)$')
    if lane then
      s.ownLanes[#s.ownLanes + 1], s.ownLanes[#s.ownLanes + 2] = lane, ARGV[i + 1]
    else
      arg[ARGV[i]] = ARGV[i + 1]
    end
  end
  at, behind = behind + 1, behind + 1 + tonumber(ARGV[behind + 1])
  for i = at + 1, behind, 2 do
    local setting, value = ARGV[i], ARGV[i + 1]
    s.settings[setting] = value
    if value == '' then
      s.gone[#s.gone + 1] = setting
    elseif not TERMS[setting] then
      s.kept[#s.kept + 1], s.kept[#s.kept + 2] = setting, value
    end
  end
  s.n, s.d, s.burst, s.pull, s.adapt = tonumber(arg.n), tonumber(arg.d), tonumber(arg.burst), arg.pull, arg.adapt
  if arg.hours ~= '' then s.hours = arg.hours end
  s.calendarsUntil, s.byLanes, s.terms = tonumber(arg.calendars_until), '', {}
  for setting, field in pairs(TERMS) do s.terms[field] = tonumber(s.settings[setting]) or 0 end
  for _, field in ipairs({ 'max_in_flight', 'max_scheduled', 'ordered', 'lanes', 'regime' }) do
    if s.settings[field] ~= '' then s.byLanes = '1' end
  end
  for i = 1, tonumber(arg.limits) do
    local limit = 'limit.' .. i .. '.'
    local rule = { arg[limit .. 'name'] }
    for k, field in ipairs({ 'n', 'd', 'burst', 'max', 'period', 'phase' }) do
      rule[k + 1] = tonumber(arg[limit .. field])
    end
    for k, field in ipairs({ 'ends', 'unit', 'ramp' }) do rule[LIMIT_ENDS + k - 1] = arg[limit .. field] end
    s.rules[i] = rule
  end
  return s, behind + 1
end

-- checkSpec returns how a spec conflicts with other queues or with rules, or nil: 2 if its parent has so many children,
-- 3 and the number of children if a pull queue would have children, 4 if it would be a child of a pull queue, 5 if a
-- rule does not exist, 6 if no queue can use it; with 5 and 6 the rule's index. ruled are the rules that it names, and
-- q is the queue, if it exists.
local function checkSpec(name, s, ruled, q, children)
  if s.pull == '1' and groups.countChildren(name) > 0 then return 3, groups.countChildren(name) end
  local base = not q and membership.parentOf(name)
  local over = base and numberOf(base)
  if over and readQueue(over).pull then return 4 end
  if not q and not base then membership.childNumbers(name) end
  if base and groups.countChildren(base) >= children then return 2 end
  if ruled == (q and q.ruleNames or '') then return nil end
  local i = 0
  for rule in string.gmatch(ruled, '%S+') do
    local algorithm = call('HGET', ruleKey(rule), 'algorithm')
    if not algorithm or NOT_FOR_QUEUES[algorithm] then return algorithm and 6 or 5, i end
    i = i + 1
  end
  checkRuleKeys()
end

-- formerOf returns what deleted queues of some names left: their paces, and what is kept of their dead jobs (dead.lua);
-- false for none.
local function formerOf(names)
  return call('HMGET', B .. 'x', unpack(names)), call('HMGET', B .. 'R', unpack(names))
end

-- firstPaces sets the bucket and the limits of a new queue. They continue from those of a deleted queue of the same
-- name, grave, while these can still delay a departure.
local function firstPaces(q, s, grave)
  local before = {}
  if grave and (tonumber(call('ZSCORE', B .. 'X', q.name)) or 0) > now then
    local n, d, burst, limits = q.n, q.d, q.burst
    q.tat, q.last, q.lastCost, q.n, q.d, q.burst, limits = unpackStruct('>I7I7I2I7I7I7', grave)
    before = limitchange.keptLimits(sub(grave, limits))
    change(q, n, d, burst, now, now + HORIZON)
  end
  if grave then
    call('HDEL', B .. 'x', q.name)
    call('ZREM', B .. 'X', q.name)
  end
  if s.rules[1] then q.limits = limitchange.carryOverLimits(s.rules, before) end
  limits.setHours(q, s.hours)
  -- In a later run than the store's first, a queue of this name may have granted departures and been lost.
  if M.runSince > 0 then
    delay(q, M.runSince + HORIZON, q.maxCost)
    q.coveredCost = q.maxCost
  end
end

-- setTerms sets the fields of a queue that follow from its spec, except for its rate.
local function setTerms(q, s, rev)
  q.burst, q.revision, q.laneUnits = s.burst, rev, s.settings['lanes.units'] ~= '' and s.settings['lanes.units'] or nil
  for field, value in pairs(s.terms) do q[field] = value end
end

-- noteCalendars notes until when the calendars of a queue are known.
local function noteCalendars(name, s)
  if not s.calendarsUntil then return end
  call('ZADD', B .. 'E', s.calendarsUntil, name)
  M.firstChore = min(M.firstChore, s.calendarsUntil + skew)
end

-- create makes a queue, which writeCreated writes. seq counts the queues ever made; grave and left are of formerOf.
local function create(seq, name, s, ruled, rev, grave, left)
  if left then call('HDEL', B .. 'R', name) end
  seq = string.format('%.0f', seq)
  -- Numbers sort as text in the order in which they were made, and stay short.
  local nr = (#seq > 1 and string.char(95 + #seq) or '') .. seq
  local n, d, adapt = adaptedRateOf({}, s.adapt, s.n, s.d)
  local q = { nr = nr, name = name, n = n, d = d, burst = s.burst, tat = 0, rem = 0, last = 0, lastCost = 0,
    lastFence = 0, size = 0, bytes = 0, turn = 9 * 2 ^ 49, maxCost = 1, promised = 0, readmitted = 0, deferred = 0,
    behind = 0, appended = 0, coveredCost = MAX_COST, epoch = M.run, pause = '', changes = {}, adapt = adapt,
    ruleNames = ruled ~= '' and ruled, pull = s.pull == '1' and s.pull or nil,
    laned = s.byLanes ~= '' and s.byLanes or nil,
    deadBytes = left and #left > 14 and unpackStruct('>I7', left, 15) }
  setTerms(q, s, rev)
  firstPaces(q, s, grave)
  return q
end

-- writeCreated writes a new queue, with further fields: names and values. The queue is not listed yet, and has not
-- joined its group.
local function writeCreated(q, s, more)
  local args, key = {}, B .. 'q' .. q.nr
  for _, value in ipairs(RECORDS) do q.changes[value] = true end
  q.links = (q.limits or q.timed or q.laneUnits) and '1:'
  -- The fields that every call reads come first, in the order in which it reads them (see fields.go).
  packChanged(q, q.changes, args)
  packTexts(q, args)
  for i = 1, #more do args[#args + 1] = more[i] end
  call('HSET', key, unpack(args))
  call('HSET', key, 'maxCostAtOpen', q.maxCost, 'made', q.revision, unpack(s.kept))
  if q.limits then
    call('HSET', key, 'limits', limitchange.rulesOf(q.limits), 'limitsState', limits.limitStates(q.limits))
    -- Existing children may have departures that its limits did not count.
    if groups.countChildren(q.name) > 0 then call('HSET', key, 'limitsChanged', now) end
  end
  if q.timed then call('HSET', key, 'hours', q.timed) end
  if s.ownLanes[1] then call('HSET', B .. 'O' .. q.nr, unpack(s.ownLanes)) end
  if q.ruleNames then askedAnew(groupOf(q.name)) end
  noteCalendars(q.name, s)
end

-- listCreated lists new queues. numbers are their names, each before its number, and names is for the sorted list of
-- names: 0 before each.
local function listCreated(numbers, names)
  call('HSET', B .. 'n', unpack(numbers))
  call('ZADD', B .. 'N', unpack(names))
  call('HINCRBY', B, 'queues', #names / 2)
end
