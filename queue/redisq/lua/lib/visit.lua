-- needs: grant, agenda, stored, pause
-- for changelog: changelog
-- gives: closeTurns, delayAfterRestart, inLanes, countLeased, visitOne
--
-- A visit to one queue that is due: by its agenda, to grant departures, or by its timer, to let scheduled jobs become
-- ready.

-- becomeReady puts the due scheduled jobs of a queue into their lanes. The queue could depart since its timer was due:
-- a job was due, a lane had rested or the pause had ended.
local function becomeReady(nr, firstDue)
  local q = load(nr)
  if not q then
    call('ZREM', B .. 's', nr)
    return
  end
  if q.paused then
    putOnAgenda(q)
    return
  end
  checkKeys(q)
  if q.pauseEndedAt then
    logLapse(q)
    if q.group == q then set(q, 'groupSince', q.pauseEndedAt + skew) end
    setPause(q, '')
    if q.group == q then groupvisit.wakeClaims(q) end
    save(q)
  end
  local T, F = B .. 't' .. nr, B .. 'f' .. nr
  local ids, ripe = call('ZRANGEBYSCORE', T, '-inf', wall, 'LIMIT', 0, request.toRipen), {}
  request.toRipen = request.toRipen - #ids
  for _, id in ipairs(ids) do
    local entry = call('HGET', F, id)
    local f = entry and #entry >= SETTLED and unpackLease(entry) or restoredLease(q, id)
    if f and not tryFor(nr, checkLaneKey, q, f) then
      call('ZADD', T, wall + 2 * SECOND, id)
    elseif f then
      f.state = S.waiting
      waitAgain(q, id, f)
      -- A job that was only scheduled, and never granted, needs no lease record while it waits.
      if f.attempts == 0 and f.verdict == 0 then call('HDEL', F, id) else call('HSET', F, id, packLease(f)) end
      ripe[#ripe + 1] = id
    else
      dropVanished(q, id)
      ripe[#ripe + 1] = id
    end
  end
  if ripe[1] then M.scheduled = M.scheduled - call('ZREM', T, unpack(ripe)) end
  putOnAgenda(q, 'NX', max(firstDue, M.filedAt)) -- before filedAt, the clocks differed by another span
  save(q)
end

-- grantSome grants jobs of a queue's only lane, behind those that v, this visit, took. It returns false when the queue,
-- or the answer, can take no more.
local function grantSome(q, v, leases, flights)
  local W, F = B .. 'w' .. q.nr, B .. 'f' .. q.nr
  local want = min(freeHandlers, 32, shares.left[q.nr] or freeHandlers)
  if want < 1 then return false end
  local paced = q.n > 0 or q.limits or q.hours
  if q.n > 0 then -- do not read what the horizon will not let out
    want = min(want, floor((now + HORIZON - departureFor(q, true)) * q.n / q.d) + 1)
    if want < 1 then return false end
  end
  if q.leased then
    want = min(want, q.maxInFlight - q.leased - #leases / 2)
    if want < 1 then return false end
  end
  -- One more shows whether others are left to wait.
  local heads = call('ZRANGE', W, v.taken, v.taken + want, 'WITHSCORES')
  local found = #heads / 2
  q.waits = found > 0
  if found == 0 then return false end
  local ids, keys, J = {}, {}, jobKey(q.nr, '')
  for i = 1, min(found, want) do
    local id = heads[2 * i - 1]
    ids[i], keys[i] = id, J .. id
  end
  local jobs, entries = call('MGET', unpack(keys)), call('HMGET', F, unpack(ids))
  local rows, taken, more = rowsOf(q), 0, true
  while more and ids[taken + 1] do
    local i, id, again = taken + 1, ids[taken + 1], nil
    local job = jobs[i]
    if not job or not LIVE[sub(job, 1, 1)] or #job < 28 then
      v.gone[#v.gone + 1] = id
    elseif byte(job, 27) >= EXPIRES and tooLate(q, job, paced) then
      if lates == MOST_LATE then
        more = false
        break
      end
      lates = lates + 1
      v.late[#v.late + 1] = id
      if lates == MOST_LATE then more = false end
    else
      if bytes > 0 and bytes + #job > mostBytes then
        more, freeHandlers = false, 0
        break
      end
      local cost = costOf(job)
      if cost > q.coveredCost then cover(q, cost) end
      local d
      d, again = take(q, cost, departureFor(q, paced), job)
      if d then
        if paced then notePaced(d) end
        grantJob(q, leases, flights, rows, id, heads[2 * i], job, entries[i], d, S.leased, '')
      elseif not again then
        more = false
        break
      end
    end
    if not again then taken = taken + 1 end
  end
  v.taken = v.taken + taken
  q.waits = found > taken
  return more and freeHandlers > 0
end

-- grantInTurn grants jobs of a queue's only lane. Their leases are written before they leave it: if the leases are
-- another program's key, no job has left.
local function grantInTurn(q, leases, flights)
  local v = { taken = 0, gone = {}, late = {} }
  repeat until not grantSome(q, v, leases, flights)
  if v.gone[1] or v.late[1] then checkKeys(q) end
  writeDepartures(q, leases, flights)
  countEnded(q, S.expired, #v.late)
  if v.taken > 0 then
    call('ZREMRANGEBYRANK', B .. 'w' .. q.nr, 0, v.taken - 1)
    M.waiting = M.waiting - v.taken
  end
  for _, id in ipairs(v.gone) do dropVanished(q, id) end
  if v.late[1] then endRemoved(q, v.late, S.expired) end
end

-- closeTurns writes what a visit changed in the lanes, and ends the jobs that were gone or too late.
local function closeTurns(q, v, gone, late)
  countEnded(q, S.expired, #late)
  turns.writeTurns(v)
  for _, text in ipairs(v.errors) do
    errors[#errors + 1] = q.nr
    errors[#errors + 1] = text
  end
  for _, id in ipairs(gone) do dropVanished(q, id) end
  if late[1] then endRemoved(q, late, S.expired) end
end

-- grantTurns grants the first jobs of lanes, in turns.
local function grantTurns(q, v, leases, flights)
  local rows, late, gone = rowsOf(q), {}, {}
  while freeHandlers > 0 and not shares.usedUp(q.nr) do
    local d = departureFor(q, true)
    if d > now + HORIZON or q.maxInFlight > 0 and q.leased + #leases / 2 >= q.maxInFlight then break end
    local l = turns.chooseLane(v, d)
    if not l then break end
    local id, turn, job, entry = turns.firstJob(v, l)
    if not id then
      if l.place == 'L' then l.place = nil end
    elseif not job or not LIVE[sub(job, 1, 1)] or #job < 28 then
      gone[#gone + 1] = id
      turns.passOver(v, l, id)
    elseif byte(job, 27) >= EXPIRES and tooLate(q, job, true) then
      if lates == MOST_LATE then break end
      lates = lates + 1
      late[#late + 1] = id
      turns.passOver(v, l, id, job)
      if lates == MOST_LATE then break end
    else
      if bytes > 0 and bytes + #job > mostBytes then
        freeHandlers = 0
        break
      end
      local cost = costOf(job)
      if cost > q.coveredCost then cover(q, cost) end
      local again
      d, again = take(q, cost, departureFor(q, true), job)
      if d then
        notePaced(d)
        local keyed = l.lane ~= ZERO
        local state = S.leased + (keyed and KEYED or 0) + (lanestate.needsNoPlace(q, l.lane) and 0 or IN_FLIGHT)
        grantJob(q, leases, flights, rows, id, turn, job, entry, d, state, keyed and l.lane or '')
        turns.noteDeparture(v, l, cost, d)
      elseif again then
        turns.chooseAgain(v, l)
      else
        break
      end
    end
  end
  closeTurns(q, v, gone, late)
  writeDepartures(q, leases, flights)
end

-- delayAfterRestart delays a queue's bucket at its first visit in a run of the server, as if a job of that cost had
-- just left: the server may have lost grants. It reports whether it did.
local function delayAfterRestart(q, cost)
  if q.epoch == M.run then return false end
  delay(q, M.runSince + HORIZON, cost)
  set(q, 'coveredCost', cost)
  set(q, 'maxCostAtOpen', q.maxCost)
  set(q, 'epoch', M.run)
  set(q, 'lastFence', 0) -- no earlier departure can be given back: the delay covers it
  return true
end

local function inLanes(q) return q.laned and (q.keyedWaiting > 0 or q.ordered) end

-- countLeased sets q.leased, which max_in_flight bounds.
local function countLeased(q)
  if q.laned and q.maxInFlight > 0 then
    q.leased = q.size - call('ZCARD', B .. 'w' .. q.nr) - q.keyedWaiting
      - call('ZCARD', B .. 't' .. q.nr) - call('ZCARD', B .. 'K' .. q.nr)
  end
end

local function visitQueue(nr, e)
  local q = load(nr)
  if q and q.group == q then return groupvisit.visitGroup(q, e) end
  if q and q.group and q.pull and not q.asleep then return groupvisit.visitGroup(q.group, e, q) end
  if not q or q.asleep or q.group then
    call('ZREM', q and agendaKey(q, 'a') or B .. 'a', nr)
    return
  end
  if q.laned or q.expiring or q.epoch ~= M.run then checkKeys(q) end
  -- For putOnAgenda. It is read before anything is written, as the key may be another program's.
  q.firstDue = tonumber(call('ZRANGE', B .. 't' .. nr, '0', '0', 'WITHSCORES')[2]) or false
  q.timer = call('ZSCORE', agendaKey(q, 's'), nr)
  if q.hours and e < now then e = max(e, limits.openSince(q.hours, now)) end
  if not delayAfterRestart(q, q.maxCost) and e < now and not (q.receiver and q.receiver.opened > 0) then
    if q.limits then countLost(nr, q.name, limits.slots(q, now - e)) elseif q.n > 0 then
      countLost(nr, q.name, floor((now - e) * q.n / q.d))
    end
  end
  if q.limits then limits.repairWindows(q) end
  local leases, flights = {}, {}
  countLeased(q)
  if inLanes(q) then
    grantTurns(q, turns.beginVisit(q), leases, flights)
  else
    if q.laned then lanestate.takePlaceAway(q, ZERO) end
    grantInTurn(q, leases, flights)
  end
  saveBucket(q)
  save(q)
  putOnAgenda(q)
  if not q.pull then shares.passOverUsedUp(nr) end
end

-- visitOne visits a queue by its agenda, or by its timer.
local function visitOne(nr, e, ripens)
  if ripens then return becomeReady(nr, e) end
  return visitQueue(nr, e)
end
