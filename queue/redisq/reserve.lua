#!lua flags=allow-oom
-- Take back leases that ran out, then grant departures within the horizon.
--
-- ARGV[2..8]  client id, client name, client version, request number, most jobs, most bytes, name for timelines
-- Returns  {next in us, backup in us, garbage, expired, lost, groups, errors}:
--          expired {queue name...}, one a lease; lost {queue name, slots...}; errors {queue number, text...};
--          groups {queue name, revision, lease in us, rows} with rows six entries a job:
--          id, epoch, fence, attempt, departs in us from now, job

begin()
check_run()
local client, number, most, most_bytes = ARGV[2], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local grant_key = B .. 'g:' .. client
local lost, groups, by_number, granted, bytes, lates = {}, {}, {}, {}, 0, 0
local left = most -- handlers
local last = call('GET', grant_key)
if last then last = cmsgpack.unpack(last) end
local MOST_LATE = 100 -- so many expired jobs end in one call, however many there are

-- numbered gives the client a number, by which flights know it.
local function numbered()
  local names, seq = B .. 'k', call('HINCRBY', B, 'cseq', 1)
  local nr = seq % 65535 + 1
  call('HSET', names, nr, ARGV[8])
  call('HDEL', names, (seq - 1000) % 65535 + 1)
  return nr
end

local me = last and last[3] or numbered() -- the client's number

-- The clients seen lately, of whom one watches.
local function see_client()
  local key = B .. 'c'
  if call('ZADD', key, now, client) == 1 then call('HSET', B .. 'C', client, cmsgpack.pack({ ARGV[3], ARGV[4] })) end
  local gone = call('ZRANGEBYSCORE', key, '-inf', now - 10 * SECOND, 'LIMIT', 0, 100)
  if gone[1] then
    call('ZREM', key, unpack(gone))
    call('HDEL', B .. 'C', unpack(gone))
  end
  return min(2 * SECOND, 250000 * call('ZCOUNT', key, now - 4 * SECOND, '+inf'))
end

-- vanished frees the place of a job that somebody else removed, and is not
-- silent about it.
local function vanished(q, id)
  note_error(q, id, 'the job was removed from the store by somebody else')
  add(q, 'vanished', 1)
  freed(q, 1, 0)
  call('HDEL', B .. 'f' .. q.nr, id)
end

local function group_of(q)
  local g = by_number[q.nr]
  if not g then
    g = { q.name, q.rev, q.lease, {} }
    by_number[q.nr] = g
    groups[#groups + 1] = g
  end
  return g[4]
end

-- replay answers a request whose reply was lost with what is left of its grant,
-- and one that was overtaken with nothing.
local function replay()
  if not last or number > last[1] then return false end
  if number < last[1] then return true end
  local function answer(nr, id, fence)
    local q, entry = load(nr), call('HGET', B .. 'f' .. nr, id)
    local f = entry and unpack_flight(entry)
    if q and f and f.state == S.leased and f.epoch == last[2] and f.fence == fence then
      local rows, job = group_of(q), call('GET', job_key(nr, id))
      if job then
        for _, v in ipairs({ id, f.epoch, fence, f.attempts + 1, f.at - now, job }) do rows[#rows + 1] = v end
        left = left - 1
      end
    end
  end
  for i = 4, #last, 3 do apart(last[i], answer, last[i], last[i + 1], last[i + 2]) end
  return true
end

-- ripen puts the scheduled jobs of a queue whose time has come at their
-- turn. The queue could depart from when the first was due, be it a job or a lane that
-- rested.
local function ripen(nr, first_due)
  local q = load(nr)
  if not q or q.paused then
    call('ZREM', B .. 's', nr)
    return
  end
  sound(nr)
  local T, F = B .. 't' .. nr, B .. 'f' .. nr
  local ids, ripe = call('ZRANGEBYSCORE', T, '-inf', now, 'LIMIT', 0, 100), {}
  for _, id in ipairs(ids) do
    local entry = call('HGET', F, id)
    local f = entry and #entry >= SETTLED and unpack_flight(entry) or remade(q, id)
    if f and not apart(nr, sound_lane, q, f) then
      call('ZADD', T, now + 2 * SECOND, id)
    elseif f then
      f.state = S.waiting
      again(q, id, f)
      -- One that was only scheduled is as any that waits.
      if f.attempts == 0 and f.pverdict == 0 then call('HDEL', F, id) else call('HSET', F, id, pack_flight(f)) end
      ripe[#ripe + 1] = id
    else
      vanished(q, id)
      ripe[#ripe + 1] = id
    end
  end
  if ripe[1] then M.ts = M.ts - call('ZREM', T, unpack(ripe)) end
  agenda(q, 'NX', first_due)
  save(q)
end

-- too_late reports whether a job at the head would depart within the horizon,
-- but after it has expired.
local function too_late(q, job)
  local at = #job >= 34 and expiry(job, 27) or math.huge
  if at >= now + HORIZON then return false end
  if cost_of(job) > q.hc then cover(q, cost_of(job)) end -- its departure is the one that it would get
  local d = next_departure(q)
  return at < d and d <= now + HORIZON
end

-- time_out ends jobs that are no longer worth to depart: they use no slot.
local function time_out(q, ids)
  local returned, F = 0, B .. 'f' .. q.nr
  for _, id in ipairs(ids) do
    local entry = call('HGET', F, id)
    returned = returned + drop_job(q, id, entry and #entry >= SETTLED and unpack_flight(entry), S.expired)
  end
  call('HDEL', F, unpack(ids))
  freed(q, #ids, returned)
  add(q, 'timedout', #ids)
  ended(q, ids)
  speak_up(q)
end

-- grant notes that a job leaves at d. lane is what its flight says of its lane, if it
-- has one of its own.
local function grant(q, leases, flights, rows, id, turn, job, entry, d, state, lane)
  local attempts, settled = 0, NEVER_SETTLED .. lane
  if entry and #entry >= SETTLED then
    attempts, settled = unpack_('>I2', entry, 2), sub(entry, SETTLED)
  end
  M.fseq = M.fseq + 1
  q.lf = M.fseq
  local l, f, r, g = #leases, #flights, #rows, #granted
  leases[l + 1], leases[l + 2] = d + q.lease, q.nr .. ':' .. id
  flights[f + 1], flights[f + 2] = id, pack(FLIGHT_HEAD, state, attempts, turn, d, M.run, M.fseq, me) .. settled
  rows[r + 1], rows[r + 2], rows[r + 3], rows[r + 4], rows[r + 5], rows[r + 6] = id, M.run, M.fseq, attempts + 1, d - now, job
  granted[g + 1], granted[g + 2], granted[g + 3] = q.nr, id, M.fseq
  left, bytes = left - 1, bytes + #job
end

-- grant_some grants jobs from the head of a queue's one lane. Returns false when the
-- queue, or the reply, can take no more.
local function grant_some(q, leases, flights)
  local W, F = B .. 'w' .. q.nr, B .. 'f' .. q.nr
  local want = min(left, 32)
  if q.n > 0 then -- do not read what the horizon will not let out
    want = min(want, floor((now + HORIZON - next_departure(q)) * q.n / q.d) + 1)
    if want < 1 then return false end
  end
  if q.leased then
    want = min(want, q.mif - q.leased - #leases / 2)
    if want < 1 then return false end
  end
  local heads = call('ZRANGE', W, 0, want - 1, 'WITHSCORES')
  if not heads[1] then return false end
  local ids, keys = {}, {}
  for i = 1, #heads, 2 do
    ids[#ids + 1] = heads[i]
    keys[#keys + 1] = job_key(q.nr, heads[i])
  end
  local jobs, entries = call('MGET', unpack(keys)), call('HMGET', F, unpack(ids))
  local rows, late, taken, more = group_of(q), {}, 0, true
  for i, id in ipairs(ids) do
    if not more then break end
    local job = jobs[i]
    if not job or not LIVE[sub(job, 1, 1)] or #job < 28 then
      vanished(q, id)
    elseif byte(job, 27) >= EXPIRES and too_late(q, job) then
      if lates == MOST_LATE then
        more = false
        break
      end
      lates = lates + 1
      late[#late + 1] = id
      if lates == MOST_LATE then more = false end
    else
      if bytes > 0 and bytes + #job > most_bytes then
        more, left = false, 0
        break
      end
      local cost = cost_of(job)
      if cost > q.hc then cover(q, cost) end
      local d = take(q, cost)
      if not d then
        more = false
        break
      end
      grant(q, leases, flights, rows, id, heads[2 * i], job, entries[i], d, S.leased, '')
    end
    taken = taken + 1
  end
  if taken > 0 then
    call('ZREMRANGEBYRANK', W, 0, taken - 1)
    M.tw = M.tw - taken
  end
  if late[1] then time_out(q, late) end
  return more and left > 0
end

-- grant_turns grants the first jobs of lanes, one after the other.
local function grant_turns(q, v, leases, flights)
  local rows, late, gone = group_of(q), {}, {}
  while left > 0 do
    local d = next_departure(q)
    if d > now + HORIZON or q.mif > 0 and q.leased + #leases / 2 >= q.mif then break end
    local l = laned.next_turn(v, d)
    if not l then break end
    local id, turn, job, entry = laned.first_job(v, l)
    if not id then
      if l.place == 'L' then l.place = nil end
    elseif not job or not LIVE[sub(job, 1, 1)] or #job < 28 then
      gone[#gone + 1] = id
      laned.passed(v, l)
    elseif byte(job, 27) >= EXPIRES and too_late(q, job) then
      if lates == MOST_LATE then break end
      lates = lates + 1
      late[#late + 1] = id
      laned.passed(v, l)
      if lates == MOST_LATE then break end
    else
      if bytes > 0 and bytes + #job > most_bytes then
        left = 0
        break
      end
      local cost = cost_of(job)
      if cost > q.hc then cover(q, cost) end
      d = take(q, cost)
      if not d then break end
      local keyed = l.lane ~= ZERO
      local state = S.leased + (keyed and KEYED or 0) + (laned.tagless(q, l.lane) and 0 or COUNTED)
      grant(q, leases, flights, rows, id, turn, job, entry, d, state, keyed and l.lane or '')
      laned.went(v, l, cost, d)
    end
  end
  laned.write_turns(v)
  for _, text in ipairs(v.errors) do
    errors[#errors + 1] = q.nr
    errors[#errors + 1] = text
  end
  for _, id in ipairs(gone) do vanished(q, id) end
  if late[1] then time_out(q, late) end
end

local function visit(nr, e)
  local q = load(nr)
  if not q or q.paused then
    call('ZREM', B .. 'a', nr)
    return
  end
  sound(nr)
  if q.epoch ~= M.run then
    hold(q, M.ran + HORIZON, q.cmax)
    set(q, 'hc', q.cmax)
    set(q, 'hm', q.cmax)
    set(q, 'epoch', M.run)
    set(q, 'lf', 0) -- nothing granted before can give its slot back: it is the hold's
  elseif q.n > 0 and e < now then
    local slots = floor((now - e) * q.n / q.d)
    if slots > 0 then
      lost[#lost + 1] = q.name
      lost[#lost + 1] = slots
      add(q, 'lost', slots)
    end
  end
  local leases, flights = {}, {}
  if q.laned and q.mif > 0 then q.leased = q.size - call('ZCARD', B .. 'w' .. nr) - q.lw - call('ZCARD', B .. 't' .. nr) end
  if q.laned and (q.lw > 0 or q.ordered) then
    grant_turns(q, laned.turns(q), leases, flights)
  else
    if q.laned then laned.no_place(q, ZERO) end
    repeat until not grant_some(q, leases, flights)
  end
  local count = #leases / 2
  if count > 0 then
    call('ZADD', B .. 'l', unpack(leases))
    call('HSET', B .. 'f' .. nr, unpack(flights))
    M.tl = M.tl + count
    set(q, 'lf', q.lf)
    meter(q, count)
  end
  save_bucket(q)
  save(q)
  agenda(q)
end

-- visit_due visits the queues of a zset whose time has come.
local function visit_due(key, horizon, do_visit)
  local found = call('ZRANGEBYSCORE', key, '-inf', now + horizon, 'WITHSCORES', 'LIMIT', 0, 100)
  for i = 1, #found, 2 do
    if left <= 0 then return end
    if not apart(found[i], do_visit, found[i], tonumber(found[i + 1])) then call('ZADD', key, now + 2 * SECOND, found[i]) end
  end
end

local backup = see_client()
if not replay() then
  take_back()
  bury_old()
  visit_due(B .. 's', 0, ripen)
  visit_due(B .. 'a', HORIZON, visit)
  call('SET', grant_key, cmsgpack.pack({ number, M.run, me, unpack(granted) }), 'PX', 60000)
end

-- When to ask again, and who watches.
local first = call('ZRANGE', B .. 'a', 0, 0, 'WITHSCORES')
local head = tonumber(first[2])
local deadline = tonumber(call('ZRANGE', B .. 'l', 0, 0, 'WITHSCORES')[2])
local ripens = tonumber(call('ZRANGE', B .. 's', 0, 0, 'WITHSCORES')[2])
local ask = now + 2 * SECOND
if ripens then ask = min(ask, ripens) end
if head then ask = min(ask, head - HORIZON / 2) end
if deadline then ask = min(ask, deadline) end
ask = max(ask, now + 1000)
local watches = M.wid == client or M.wid == '' or now >= M.wat + OVERDUE
local next_in
if left <= 0 then
  -- No handler is free here: somebody else must look.
  next_in = ask - now
  if head and head <= now + HORIZON then next_in = 0 end
  if watches then
    M.wid, M.wat = '', now
    if call('ZCARD', B .. 'c') > 1 and (head or ripens) then wake('') end
  end
elseif watches then
  M.wid, M.wat = client, ask
  next_in = ask - now
elseif now > M.wat then
  next_in = M.wat + OVERDUE - now
else
  next_in = min(2 * SECOND, M.wat - now + backup)
end
finish()
return { next_in, backup, call('LLEN', B .. 'z'), expired, lost, groups, errors }
