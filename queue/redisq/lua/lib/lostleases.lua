-- needs: held, ended, agenda, backlog
--
-- Of reserve alone, behind the shared parts: leases that ran out are taken back, and dead
-- jobs whose retention has passed are forgotten.

local expired, errors = {}, {} -- of which queues leases ran out; queue number and what is wrong with it
local pulled -- number of the one queue that is visited, if one was named

-- apart does something for one queue so that it stops nobody else if it fails.
local function apart(nr, ...)
  local ok, e = pcall(...)
  if not ok then
    errors[#errors + 1] = nr
    errors[#errors + 1] = error_text(e)
  end
  return ok
end

-- sound_lane raises unless the key of a lane into which a job is to come back is of the type
-- that it must be.
local function sound_lane(q, f)
  if f.lane ~= ZERO then call('ZCARD', lanes.waiting_key(q, f.lane)) end
end

-- remade returns a flight in place of one that somebody else removed, if the job's record
-- stands: then it can wait again, behind all others.
local function remade(q, id)
  local job = redis.pcall('GETRANGE', job_key(q.nr, id), 0, 63)
  if type(job) ~= 'string' or not LIVE[sub(job, 1, 1)] or #job < 28 then return nil end
  local h = q.laned and lanes.head_of(job, 27) or { lane = ZERO, priority = 0 }
  return { state = S.leased, attempts = 0, turn = q.turn - h.priority * PRIORITY_STEP, at = now, epoch = NOBODY, fence = 0, pepoch = NOBODY, pfence = 0,
    bytes = bytes_of(id, call('STRLEN', job_key(q.nr, id))), pverdict = 0, lane = h.lane, counted = false, reason = '' }
end

-- leased returns the flight of a job whose lease ran out, if it has not landed.
local function leased(q, id)
  local entry = call('HGET', B .. 'f' .. q.nr, id)
  if entry then
    local f = unpack_flight(entry)
    return f.state == S.leased and f or nil
  end
  local f = remade(q, id)
  local W = f and (q.laned and lanes.waiting_key(q, f.lane) or B .. 'w' .. q.nr)
  if not f or call('ZSCORE', W, id) or call('ZSCORE', B .. 't' .. q.nr, id) then return nil end
  f.counted = q.laned and not lanestate.tagless(q, f.lane)
  return f
end

-- expire ends one lease that ran out.
local function expire(nr, id, member)
  local q = load(nr)
  if q then
    sound(q)
    sound_dead(q.name)
  end
  local f = q and leased(q, id)
  if f then sound_lane(q, f) end
  local unknown = f and call('HGET', B .. 'q' .. nr, 'unknown') or ''
  if unknown == 'hold' then call('ZCARD', held_key(q)) end
  call('ZREM', B .. 'l', member)
  if not f then return end
  ran_out(f, unknown)
  add(q, 'leases_expired', 1)
  note_error(q, id, f.reason)
  if unknown == 'hold' then
    put_held(q, id, f)
    call('HSET', B .. 'f' .. nr, id, pack_flight(f))
  elseif unknown == 'dead' or f.attempts >= q.maxatt then
    local freeing = places()
    finish_job(q, id, f, S.dead, 0, freeing)
    freed(q, freeing)
    call('HDEL', B .. 'f' .. nr, id)
    died(q, { id })
    if q.laned then lanestate.ended_of(q, f) end
  else
    f.state = S.waiting
    again(q, id, f)
    expires_again(q, id, true)
    call('HSET', B .. 'f' .. nr, id, pack_flight(f))
  end
  speak_up(q)
  local e = agenda(q, 'LT')
  if e and (pulled and nr ~= pulled or not pulled and q.pull) then due(e, q) end
  save(q)
  M.tl = M.tl - 1
  expired[#expired + 1] = q.name
end

local function take_back()
  for _, member in ipairs(call('ZRANGEBYSCORE', B .. 'l', '-inf', now, 'LIMIT', 0, 100)) do
    local nr, id = string.match(member, '^([^:]*):(.*)$')
    if not apart(nr, expire, nr, id, member) then call('ZADD', B .. 'l', now + 2 * SECOND, member) end
  end
end

-- bury_old forgets dead jobs of one name whose retention has passed.
local function bury_old()
  local name = call('ZRANGEBYSCORE', B .. 'y', '-inf', now, 'LIMIT', 0, 1)[1]
  if not name then return end
  call('ZREM', B .. 'y', name)
  apart(name, function()
    sound_dead(name)
    local k = keeping(name)
    if not k then return end
    forget_dead(k)
    local oldest = tonumber(call('ZRANGE', B .. 'd:' .. name, 0, 0, 'WITHSCORES')[2])
    if oldest then call('ZADD', B .. 'y', oldest + k.rfor, name) end
  end)
end
