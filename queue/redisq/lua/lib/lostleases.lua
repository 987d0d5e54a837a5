-- needs: held, ended, agenda, stored
-- for backlog: backlog
--
-- Leases that ran out are ended; of dead jobs those whose retention has passed are forgotten.

local expired, errors = {}, {} -- of which queues leases ran out; queue number and what is wrong with it
local pulled -- number of the one queue that is visited, if one was named

-- try_for calls a function for one queue. If that fails it is noted as the queue's error and stops no other queue.
local function try_for(nr, ...)
  local ok, e = pcall(...)
  if not ok then
    errors[#errors + 1] = nr
    errors[#errors + 1] = error_text(e)
  end
  return ok
end

-- check_lane_key raises unless the key of the lane into which a job is to come back has the right type.
local function check_lane_key(q, f)
  if f.lane ~= ZERO then call('ZCARD', lanes.waiting_key(q, f.lane)) end
end

-- restored_lease returns a new lease record in place of one that somebody else removed, if the job itself is still
-- there: then it can wait again, behind all others.
local function restored_lease(q, id)
  local job = redis.pcall('GETRANGE', job_key(q.nr, id), 0, 63)
  if type(job) ~= 'string' or not LIVE[sub(job, 1, 1)] or #job < 28 then return nil end
  local h = q.laned and lanes.head_of(job, 27) or { lane = ZERO, priority = 0 }
  return { state = S.leased, attempts = 0, turn = q.turn - h.priority * PRIORITY_STEP, at = now, epoch = NOBODY,
    fence = 0, pepoch = NOBODY, pfence = 0,
    bytes = bytes_of(id, call('STRLEN', job_key(q.nr, id))), pverdict = 0, lane = h.lane, counted = false, reason = '' }
end

-- lost_lease returns the lease record of a job whose lease ran out, if it is still leased.
local function lost_lease(q, id)
  local entry = call('HGET', B .. 'f' .. q.nr, id)
  if entry then
    local f = unpack_lease(entry)
    return f.state == S.leased and f or nil
  end
  local f = restored_lease(q, id)
  local W = f and (q.laned and lanes.waiting_key(q, f.lane) or B .. 'w' .. q.nr)
  if not f or call('ZSCORE', W, id) or call('ZSCORE', B .. 't' .. q.nr, id) then return nil end
  f.counted = q.laned and not lanestate.needs_no_place(q, f.lane)
  return f
end

-- end_lost_lease ends one lease that ran out.
local function end_lost_lease(nr, id, member)
  local q = load(nr)
  if q then
    check_keys(q)
    check_dead_keys(q.name)
  end
  local f = q and lost_lease(q, id)
  if f then check_lane_key(q, f) end
  local unknown = f and on_unknown(nr) or ''
  if unknown == 'hold' then call('ZCARD', held_key(q)) end
  call('ZREM', B .. 'l', member)
  if not f then return end
  end_attempt_unknown(f, unknown)
  add(q, 'leases_expired', 1)
  note_error(q, id, f.reason)
  if unknown == 'hold' then
    put_held(q, id, f)
    call('HSET', B .. 'f' .. nr, id, pack_lease(f))
  elseif unknown == 'dead' or f.attempts >= q.maxatt then
    local freeing = new_freed()
    end_job(q, id, f, S.dead, 0, freeing)
    give_places_back(q, freeing)
    call('HDEL', B .. 'f' .. nr, id)
    remember_dead(q, { id })
    if q.laned then lanestate.end_in_lane(q, f) end
  else
    f.state = S.waiting
    wait_again(q, id, f)
    note_expiry_again(q, id, true)
    call('HSET', B .. 'f' .. nr, id, pack_lease(f))
  end
  if backlogged(q) then announce_room(q) end
  local e = put_on_agenda(q, 'LT')
  if e and (pulled and nr ~= pulled or not pulled and q.pull) then wake_for(e, q) end
  save(q)
  M.leased = M.leased - 1
  expired[#expired + 1] = q.name
end

local function take_back_leases()
  if now < M.first_lease then return end
  for _, member in ipairs(call('ZRANGEBYSCORE', B .. 'l', '-inf', now, 'LIMIT', 0, 100)) do
    local nr, id = string.match(member, '^([^:]*):(.*)$')
    if not try_for(nr, end_lost_lease, nr, id, member) then call('ZADD', B .. 'l', now + 2 * SECOND, member) end
  end
end

-- forget_dead forgets dead jobs of a name whose retention has passed.
local function forget_dead(name)
  check_dead_keys(name)
  local k = retention_of(name)
  if not k then return end
  trim_dead(k)
  local oldest = tonumber(call('ZRANGE', B .. 'd:' .. name, '0', '0', 'WITHSCORES')[2])
  if oldest then call('ZADD', B .. 'y', oldest + k.rfor, name) end
end

-- do_chores does what can wait for a second: it forgets clients that are gone, and dead jobs of one name. Reports how
-- much there is to sweep.
local function do_chores()
  if now < M.first_chore then return 0 end
  local gone = call('ZRANGEBYSCORE', B .. 'c', '-inf', now - 10 * SECOND, 'LIMIT', 0, 100)
  if gone[1] then
    call('ZREM', B .. 'c', unpack(gone))
    call('HDEL', B .. 'C', unpack(gone))
  end
  local name = call('ZRANGEBYSCORE', B .. 'y', '-inf', now, 'LIMIT', 0, 1)[1]
  if name then
    call('ZREM', B .. 'y', name)
    try_for(name, forget_dead, name)
  end
  local garbage = call('LLEN', B .. 'z') + call('ZCOUNT', B .. 'E', '-inf', now)
  M.first_chore = (name or garbage > 0) and now or now + SECOND
  return garbage
end
