-- needs: held, ended, agenda, stored
-- for backlog: backlog
--
-- Ends leases that ran out, and forgets dead jobs past their retention.

local expired, errors = {}, {} -- queues of leases that ran out; queue number and error
-- Numbers of the one queue that is visited, if one was named, and of its parent.
local pulled, pulledParent

-- tryFor calls a function for one queue. An error is noted for the queue and stops no other queue.
local function tryFor(nr, ...)
  local ok, e = pcall(...)
  if not ok then
    errors[#errors + 1] = nr
    errors[#errors + 1] = errorText(e)
  end
  return ok
end

-- checkLaneKey raises unless the key of the lane to which a job returns has the right type.
local function checkLaneKey(q, f)
  if f.lane ~= ZERO then call('ZCARD', lanes.waitingKey(q, f.lane)) end
end

-- restoredLease returns a lease record in place of one that another program removed, or nil if the job is gone too. The
-- job then waits again, behind all others.
local function restoredLease(q, id)
  local job = redis.pcall('GETRANGE', jobKey(q.nr, id), 0, 63)
  if type(job) ~= 'string' or not LIVE[sub(job, 1, 1)] or #job < 28 then return nil end
  local h = q.laned and lanes.headOf(job, 27) or { lane = ZERO, priority = 0 }
  return { state = S.leased, attempts = 0, turn = q.turn - h.priority * PRIORITY_STEP, due = now, epoch = NOBODY,
    fence = 0, settledEpoch = NOBODY, settledFence = 0,
    bytes = bytesOf(id, call('STRLEN', jobKey(q.nr, id))), verdict = 0, lane = h.lane, inFlight = false, reason = '' }
end

-- leaseLost returns the lease record of a job whose lease ran out, if it is still leased.
local function leaseLost(q, id)
  local entry = call('HGET', B .. 'f' .. q.nr, id)
  if entry then
    local f = unpackLease(entry)
    return f.state == S.leased and f or nil
  end
  local f = restoredLease(q, id)
  local W = f and (q.laned and lanes.waitingKey(q, f.lane) or B .. 'w' .. q.nr)
  if not f or call('ZSCORE', W, id) or call('ZSCORE', B .. 't' .. q.nr, id) then return nil end
  f.inFlight = q.laned and not lanestate.needsNoPlace(q, f.lane)
  return f
end

-- takeBackOne ends one lease that ran out.
local function takeBackOne(nr, id, member)
  local q = load(nr)
  if q then
    checkKeys(q)
    checkDeadKeys(q.name)
  end
  local f = q and leaseLost(q, id)
  if f then checkLaneKey(q, f) end
  local unknown = f and onUnknown(nr) or ''
  if unknown == 'hold' then call('ZCARD', heldKey(q)) end
  call('ZREM', B .. 'l', member)
  if not f then return end
  endAttemptUnknown(f, unknown)
  add(q, 'leases_expired', 1)
  noteFailure(q, id, f.reason)
  if unknown == 'hold' then
    putHeld(q, id, f)
    call('HSET', B .. 'f' .. nr, id, packLease(f))
  elseif unknown == 'dead' or f.attempts >= q.maxAttempts then
    local freeing = newFreed()
    endJob(q, id, f, S.dead, 0, freeing)
    givePlacesBack(q, freeing)
    call('HDEL', B .. 'f' .. nr, id)
    rememberDead(q, { id })
    if q.laned then lanestate.endInLane(q, f) end
  else
    f.state = S.waiting
    waitAgain(q, id, f)
    trackDeadline(q, id, true)
    call('HSET', B .. 'f' .. nr, id, packLease(f))
  end
  if hasBacklog(q) then announceRoom(q) end
  local e = putOnAgenda(q, 'LT')
  if e and (pulled and nr ~= pulled or not pulled and q.pull) then wakeFor(e, q) end
  save(q)
  M.leased = M.leased - 1
  expired[#expired + 1] = q.name
end

local function takeBack()
  if now < M.firstLease then return end
  for _, member in ipairs(call('ZRANGEBYSCORE', B .. 'l', '-inf', now, 'LIMIT', 0, 100)) do
    local nr, id = string.match(member, '^([^:]*):(.*)$')
    if not tryFor(nr, takeBackOne, nr, id, member) then call('ZADD', B .. 'l', now + 2 * SECOND, member) end
  end
end

-- forgetDead forgets dead jobs of a name whose retention has passed.
local function forgetDead(name)
  checkDeadKeys(name)
  local k = retention(name)
  if not k then return end
  trimDead(k)
  local oldest = tonumber(call('ZRANGE', B .. 'd:' .. name, '0', '0', 'WITHSCORES')[2])
  if oldest then call('ZADD', B .. 'y', oldest + k.retentionFor, name) end
end

-- doChores does what can wait for a second: it forgets clients that are gone, and dead jobs of one name. It returns how
-- much there is to sweep.
local function doChores()
  if now < M.firstChore then return 0 end
  local gone = call('ZRANGEBYSCORE', B .. 'c', '-inf', now - 10 * SECOND, 'LIMIT', 0, 100)
  if gone[1] then
    call('ZREM', B .. 'c', unpack(gone))
    call('HDEL', B .. 'C', unpack(gone))
    for i, client in ipairs(gone) do gone[i] = 'g:' .. client end
    call('HDEL', B, unpack(gone))
  end
  local name = call('ZRANGEBYSCORE', B .. 'y', '-inf', now, 'LIMIT', 0, 1)[1]
  if name then
    call('ZREM', B .. 'y', name)
    tryFor(name, forgetDead, name)
  end
  local garbage = call('LLEN', B .. 'z') + call('ZCOUNT', B .. 'E', '-inf', wall)
  M.firstChore = (name or garbage > 0) and now or now + SECOND
  return garbage
end
