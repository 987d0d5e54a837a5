-- needs: groups, agenda, request, shares, departures, stored
-- gives: visitGroup, wakeClaims
--
-- A visit to a group. Several members are open at once, each for one job at a time. All is written at the end, once for
-- each member. A client that pulls from a child visits only that child, v.child.
--
-- A member in a visit has its place: 'Y' (ready; at is its tag), 'R' (resting; at is until when) or nil. tie is its
-- number. Once it was chosen, q is its queue, turns the visit to its lanes, and onlyLane its one lane if its jobs take
-- no turns.

local MOST_READIED, MOST_PUT_OFF = 100, 100

local function memberIn(v, nr, at, place)
  local m = { tie = nr, at = tonumber(at), place = place, leases = {}, flights = {}, late = {}, gone = {} }
  v.all[#v.all + 1] = m
  return m
end

local function makeReady(v, m)
  local finish = m.q and m.q.finish or redis.pcall('HGET', B .. 'q' .. m.tie, 'finish')
  m.place, m.at = 'Y', max(tonumber(type(finish) ~= 'table' and finish) or 0, v.g.groupServed)
  turnorder.insert(v.ready, m)
end

local function letRest(v, m, at)
  m.place, m.at = 'R', at
  if at <= now + HORIZON then turnorder.insert(v.resting, m) end
end

-- checkNumbers raises if a numeric field of a queue is not a number. An error in the middle of the visit would affect
-- jobs of its siblings.
local NUMBERS = { 'n', 'd', 'burst', 'tat', 'rem', 'last', 'lastCost', 'lastFence', 'capacity', 'size', 'bytes', 'turn',
  'maxCost', 'promised', 'readmitted', 'deferred', 'behind', 'maxBytes', 'lease', 'maxAttempts', 'retentionFor',
  'retentionMax', 'revision', 'coveredCost' }

local function checkNumbers(q)
  for _, field in ipairs(NUMBERS) do
    local number = q[field]
    if not number or number - number ~= 0 then
      raise('WRONGTYPE', field .. ' of ' .. B .. 'q' .. q.nr .. ' is no number')
    end
  end
end

-- open begins the visit to a member when it is first chosen.
local function open(v, m)
  local q = m.tie == v.g.nr and v.g or load(m.tie)
  if not q or q.group ~= v.g or q.asleep then return end
  checkKeys(q)
  checkNumbers(q)
  withLanes(q)
  if q ~= v.g then
    visit.delayAfterRestart(q, q.maxCost)
    repairWindows(q)
  end
  visit.countLeased(q)
  if visit.inLanes(q) then
    m.turns = turns.beginVisit(q, v.lanes)
  else
    if q.laned then lanestate.takePlaceAway(q, ZERO) end
    m.turns = { q = q, all = {}, errors = {} }
    m.onlyLane = turns.visitedLane(m.turns, ZERO, 0, nil)
  end
  m.q, q.member = q, m
end

-- memberOpens returns when a member lets its next job out, at d or later. Only the group delays the parent's own jobs.
local function memberOpens(v, q, d)
  if q == v.g then return max(d, q.stop or d) end
  return limits.nextOpen(q.hours, max(d, nextDeparture(q)))
end

local function atMostInFlight(m) return m.q.maxInFlight > 0 and m.q.leased + #m.leases / 2 >= m.q.maxInFlight end

-- nextLane returns the lane of a member whose turn it is.
local function nextLane(m, d)
  if not m.onlyLane then return turns.chooseLane(m.turns, d) end
  return turns.firstId(m.turns, m.onlyLane) and m.onlyLane
end

-- choose returns the member whose turn it is, and its lane; nil if no member is ready any more.
local function choose(v, d)
  while v.putOff < MOST_PUT_OFF do
    local m = turnorder.pick(v)
    if not m then return nil end
    local tag = m.at
    local over = shares.usedUp(m.tie)
    m.place = nil
    if over then
      m.place = 'Y' -- with its former turn
      v.overShare[#v.overShare + 1] = m
    elseif not m.q and not m.opened then
      m.opened, request.visits = true, request.visits + 1
      if not tryFor(m.tie, open, v, m) then m.place, m.at = 'R', now + 2 * SECOND end
    end
    if m.q and not over then
      local at = memberOpens(v, m.q, d)
      if m.q ~= v.g then at = limits.nextOpen(m.q.hours, reign.apart(m.q, at)) end
      if at > d then
        letRest(v, m, at)
      elseif not atMostInFlight(m) then
        local l = nextLane(m, d)
        if l then
          m.place, m.at = 'Y', tag
          return m, l
        end
      end
    end
    v.putOff = v.putOff + 1
  end
end

local function wakeMembers(v, d)
  while v.count < MOST_READIED and v.resting[1] and v.resting[#v.resting].at <= d do
    v.count = v.count + 1
    makeReady(v, table.remove(v.resting))
  end
  return v.ready[1] or turnorder.unread(v)
end

-- findPlace gives a member its next place after one of its jobs.
local function findPlace(v, m, d)
  m.place = nil
  local at = memberOpens(v, m.q, d)
  if atMostInFlight(m) then return end
  if m.onlyLane then
    if not turns.firstId(m.turns, m.onlyLane) then return end
  elseif not turns.hasLaneBy(m.turns, at) then
    return
  end
  if at > d then return letRest(v, m, at) end
  m.place = 'Y'
  turnorder.insert(v.ready, m)
end

local function passed(m, l, id, job)
  if m.onlyLane then l.unfit, l.pos = l.unfit + 1, l.pos + 1 else turns.passOver(m.turns, l, id, job) end
end

-- putBackChosen returns a member and its lane to where they were, to be chosen again.
local function putBackChosen(v, m, l)
  if not m.onlyLane then turnorder.insert(m.turns.ready, l) end
  turnorder.insert(v.ready, m)
end

-- tagOf returns the tag by which a member of that weight with a stored tag takes its turn. It may be behind by a credit
-- if the member was passed over because no client came for its jobs.
local function tagOf(g, tag, pulled, weight)
  return max(tag, (pulled and g.groupServed or g.groupFloor) - tagLength(slots(g, HORIZON / 2), weight))
end

-- grantMemberJob grants a job of a member, to depart at d.
local function grantMemberJob(v, m, l, d, bill, id, turn, entry)
  local q, g, job, cost = m.q, v.g, bill.job, bill.cost
  reign.notePaced(d)
  reign.shift(q)
  if q ~= g then reign.shift(g) end
  if q.stop then receiver.noteDeparture(q, d) end
  takeAll(g, d, bill)
  if q ~= g then takeAll(q, d, bill) end
  local keyed = l.lane ~= ZERO
  local state = S.leased + (keyed and KEYED or 0) + (lanestate.needsNoPlace(q, l.lane) and 0 or IN_FLIGHT)
  grant.grantJob(q, m.leases, m.flights, rowsOf(q), id, turn, job, entry, d, state, keyed and l.lane or '')
  set(g, 'lastFence', M.lastFence)
  if m.onlyLane then l.granted, l.pos = l.granted + 1, l.pos + 1 else turns.noteDeparture(m.turns, l, cost, d) end
  local tag = tagOf(g, m.at, q.pull, q.weight)
  set(g, 'groupServed', tag)
  if q.pull then set(g, 'groupFloor', max(g.groupFloor, tag)) end
  m.at = tag + tagLength(cost, q.weight)
  set(q, 'finish', m.at)
end

-- step handles the next job of a member. It returns false when the visit is over.
local function step(v, m, l, d)
  local q, g = m.q, v.g
  local id, turn, job, entry = turns.firstJob(m.turns, l)
  if not id then
    if l.place == 'L' then l.place = nil end
  elseif not job or not LIVE[sub(job, 1, 1)] or #job < 28 then
    m.gone[#m.gone + 1] = id
    passed(m, l, id)
  else
    local cost = costOf(job)
    if cost > g.coveredCost or cost > q.coveredCost then
      if cost > g.coveredCost then cover(g, cost) end
      if cost > q.coveredCost then cover(q, cost) end
      putBackChosen(v, m, l)
      return true
    end
    if expiresAt(job, 27) + skew < d then
      if lates == MOST_LATE then return false end
      lates = lates + 1
      m.late[#m.late + 1] = id
      passed(m, l, id, job)
      if lates == MOST_LATE then return false end
    else
      if bytes > 0 and bytes + #job > mostBytes then
        freeHandlers = 0
        return false
      end
      local bill = { q = q, cost = cost, job = job }
      -- A member rests until it has enough credit, or until its next window.
      if q ~= g and not hasCredit(q, d, bill) or not hasCredit(g, d, bill) or q ~= g and not affords(q, d, bill) then
        putBackChosen(v, m, l)
        return true
      end
      if not affords(g, d, bill) then return false end
      grantMemberJob(v, m, l, d, bill, id, turn, entry)
    end
  end
  findPlace(v, m, d)
  return true
end

local SLOT_KEPT, LEAST_PATIENCE, MOST_CLAIMS = HORIZON / 4, HORIZON / 8, 32

-- firstClaim returns another pull child with a claim whose turn is first, or false. Claims whose clients are late
-- lapse.
local function firstClaim(v)
  if v.claim ~= nil then return v.claim end
  v.claim = false
  local key = B .. 'c' .. v.g.nr
  local found = call('ZRANGE', key, 0, MOST_CLAIMS, 'WITHSCORES')
  for i = 1, #found, 2 do
    if not (v.child and found[i] == v.child.tie) then
      local asks = redis.pcall('HGET', B .. 'q' .. found[i], 'pullersAskAt')
      asks = tonumber(type(asks) ~= 'table' and asks) or 0
      if asks + HORIZON / 2 > now then
        v.claim = { tie = found[i], at = tonumber(found[i + 1]), asks = asks }
        return v.claim
      end
      call('ZREM', key, found[i])
    end
  end
  return false
end

-- othersFirst reports whether it is the turn of a member that other clients serve, and will ask for by an instant.
local function othersFirst(v, m, opens, till)
  local g = v.g
  local own = { tie = m.tie, at = tagOf(g, m.at, v.child, m.q.weight) }
  local function isBefore(tie, at, pulled)
    local weight = tonumber(redis.pcall('HGET', B .. 'q' .. tie, 'weight')) or 1
    return turnorder.before({ tie = tie, at = tagOf(g, at, pulled, weight) }, own)
  end
  local other = firstClaim(v)
  if other and other.asks <= till and isBefore(other.tie, other.at, true) then return true end
  if not v.child or M.watcher == '' or M.watchUntil > till or now >= M.watchUntil + HORIZON / 2 then return false end
  local first = call('ZRANGE', v.key, '0', '0', 'WITHSCORES')
  if first[1] and isBefore(first[1], tonumber(first[2]), false) then return true end
  -- A member that stops resting joins with this tag, or a greater one.
  local rested = tonumber(call('ZRANGE', v.rests, '0', '0', 'WITHSCORES')[2])
  return rested and rested <= opens and g.groupServed < own.at
end

-- leavesSlot reports whether the slot that a member could have is left to a member that other clients serve. They have
-- until SLOT_KEPT before it; after that any client may take it, so no member holds up another.
local function leavesSlot(v, m)
  local opens = max(nextDeparture(v.g), memberOpens(v, m.q, now))
  local till = opens - SLOT_KEPT
  if now >= till or not othersFirst(v, m, opens, till) then return false end
  v.left, request.again = true, min(request.again or math.huge, max(till, now + LEAST_PATIENCE))
  return true
end

local function lostSince(v, e)
  local g, first = v.g, v.resting[#v.resting]
  if v.child then e, first = groups.pullsFrom(v.child.q, e), { tie = v.child.tie, at = e } end
  if e >= now then return end
  local whose = g
  if not turnorder.unread(v) and first and readyAt(g) < first.at and first.tie ~= g.nr then
    local ok, q = pcall(load, first.tie)
    if not ok or not q then return end
    whose = q
  end
  for _, of in ipairs({ g, whose }) do
    if of.hours then e = max(e, limits.openSince(of.hours, now)) end
  end
  if whose ~= g and whose.receiver and whose.receiver.opened > 0 then return end
  grant.countLost(whose.nr, whose.name, slots(whose, now - e))
end

-- writeMember writes what the visit changed in a member that was chosen.
local function writeMember(v, m)
  local q = m.q
  visit.closeTurns(q, m.turns, m.gone, m.late)
  grant.writeDepartures(q, m.leases, m.flights)
  if q ~= v.g then saveBucket(q) end
  putOnAgenda(q)
  save(q)
end

-- endGroupVisit writes the places of the members that were not chosen.
local function endGroupVisit(v)
  local ready, rest, out = {}, {}, {}
  for _, m in ipairs(v.all) do
    if not m.q then
      local to = m.place == 'Y' and ready or m.place == 'R' and rest or nil
      if to then
        to[#to + 1] = m.at
        to[#to + 1] = m.tie
      end
      if m.place ~= 'R' then call('ZREM', v.rests, m.tie) end
      if m.place ~= 'Y' then call('ZREM', v.key, m.tie) end
    end
  end
  if ready[1] then call('ZADD', v.key, unpack(ready)) end
  if rest[1] then call('ZADD', v.rests, unpack(rest)) end
end

-- passOver leaves a group to other clients if this client has used up its share of every member that could depart, or
-- if the next slot was left to a pull child.
local function passOver(v)
  local g = v.g
  for _, m in ipairs(v.overShare) do shares.fallShort(m.tie) end
  if v.left then
    if call('ZSCORE', B .. 'a', g.nr) then shares.pass(g.nr) end
    return
  end
  if not v.overShare[1] or call('ZCARD', v.key) > #v.overShare or not call('ZSCORE', B .. 'a', g.nr) then return end
  local first = tonumber(call('ZRANGE', v.rests, '0', '0', 'WITHSCORES')[2])
  if first then shares.first = min(shares.first or math.huge, max(readyAt(g), g.groupSince, first)) end
  shares.pass(g.nr)
end

-- visitGroup visits a group for a drainer or, if child is a pull queue, for a client that pulls from it.
local function visitGroup(g, e, child)
  local v = { g = g, all = {}, ready = {}, resting = {}, overShare = {}, count = 0, putOff = 0,
    lanes = { readied = 0, changed = 0 }, unread = {}, at = 1, rank = 0,
    key = B .. 'Y' .. g.nr, rests = B .. 'R' .. g.nr, came = function(v, nr, at) return memberIn(v, nr, at, 'Y') end }
  call('ZCARD', v.key)
  local rested = child and {}
    or call('ZRANGEBYSCORE', v.rests, '-inf', now + HORIZON, 'WITHSCORES', 'LIMIT', 0, MOST_READIED)
  if g.asleep then return not child and armGroup(g) end
  withLanes(g)
  groupInVisit = g
  for i = #rested - 1, 1, -2 do v.resting[#v.resting + 1] = memberIn(v, rested[i], rested[i + 1], 'R') end
  if child then
    local m = memberIn(v, child.nr, groups.rejoin(child), 'Y')
    v.child, v.ready[1], v.noMore, m.opened = m, m, true, true
    open(v, m)
  end
  bounded(g)
  if not visit.delayAfterRestart(g, max(g.groupMaxCost, g.maxCost)) then lostSince(v, e) end
  repairWindows(g)
  while freeHandlers > 0 and request.visits < MAX_VISITS do
    local d = grant.departureFor(g, true)
    if child then
      d = limits.nextOpen(child.hours, max(d, reign.apart(v.child.q, memberOpens(v, v.child.q, now))))
    end
    if d > now + HORIZON then break end
    if not wakeMembers(v, d) then
      local first = v.resting[#v.resting]
      if not first then break end
      d = max(d, first.at)
      if not wakeMembers(v, d) then break end
    end
    local m, l = choose(v, d)
    if m and (limits.nextOpen(g.hours, d) > d or leavesSlot(v, m)) then
      putBackChosen(v, m, l)
      break
    end
    if m and not step(v, m, l, d) or v.putOff >= MOST_PUT_OFF then break end
  end
  for _, m in ipairs(v.all) do
    if m.q then writeMember(v, m) end
  end
  endGroupVisit(v)
  g.member = nil
  if not child then set(g, 'groupSince', now) end
  saveBucket(g)
  armGroup(g)
  if not child then passOver(v) end
  save(g)
  groupInVisit = nil
end
