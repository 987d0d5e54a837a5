#!lua flags=allow-oom
-- needs: request, shares, lostleases, departures
-- reads: mw, mc, mp
-- for lanes: turns
-- for limits: groupvisit
-- for receiver: receiver
-- for expiry: expiry
-- for visits: visit
-- for refile: refile
--
-- Take back leases that ran out, then grant departures within the horizon.
--
-- ARGV[2..13]  client id, client name, client version, request number, most jobs, most bytes, name for timelines,
--              name of the pull queue that is asked for or '', lead and uncertainty in us, whose clock that is, the
--              last instant that the clock can show, as the client knows it, or ''
-- ARGV[14..]   in pairs: name of a queue, how many jobs of it at most
-- Returns  {-1} when there is no queue of that name, {-2} when it is not a pull queue, else {next in us, backup in us,
--          garbage, expired, lost, answers, errors, now, short}: expired {queue name...}, one a lease; lost {queue
--          name, slots...}; errors {queue number, text...}; answers {queue name, revision, lease in us, epoch, rows}
--          with rows five entries a job: id, fence, attempt, departs in us from now, job; short {queue name...}

local REFILE_AT = 10000 -- so far the clocks move apart before queues are filed anew
local number = tonumber(ARGV[5])

-- registerClient notes that a client asked, and returns how many did lately. One of them watches.
local function registerClient()
  if call('ZADD', B .. 'c', now, client) == 1 then
    call('HSET', B .. 'C', client, cmsgpack.pack({ ARGV[3], ARGV[4] }))
  end
  return call('ZCOUNT', B .. 'c', now - 4 * SECOND, '+inf')
end

-- replay answers a request whose reply was lost with what is left of its grant, and one that a later one overtook with
-- nothing.
local function replay()
  if not last or number > last[1] then return false end
  if number < last[1] then return true end
  local function answer(nr, id, fence)
    local q, entry = load(nr), call('HGET', B .. 'f' .. nr, id)
    local f = entry and unpackLease(entry)
    if q and f and f.state == S.leased and f.epoch == last[2] and f.fence == fence then
      local rows, job = rowsOf(q, f.epoch), call('GET', jobKey(nr, id))
      if job then
        for _, v in ipairs({ id, fence, f.attempts + 1, f.at - now, job }) do rows[#rows + 1] = v end
        free_handlers = free_handlers - 1
      end
    end
  end
  for i = 6, #last, 3 do tryFor(last[i], answer, last[i], last[i + 1], last[i + 2]) end
  return true
end

-- grantDue visits the queues on the agenda, or with timers, whose time has come. What a failed visit had granted is
-- taken out of the answer, and was not written.
local function grantDue(key, horizon, ripens)
  local most = MAX_VISITS + (#ARGV - 13) / 2 -- queues that are passed over do not count
  local found = call('ZRANGEBYSCORE', key, '-inf', now + horizon, 'WITHSCORES', 'LIMIT', 0, most)
  for i = 1, #found, 2 do
    if free_handlers <= 0 or request.visits >= MAX_VISITS or ripens and request.to_ripen <= 0 then return end
    local answered, leased, free, size, late = #answers, #granted, free_handlers, bytes, lates
    local passed = not ripens and shares.passOver(found[i])
    if not passed and not ripens then request.visits = request.visits + 1 end
    if not passed and not tryFor(found[i], visitOne, found[i], tonumber(found[i + 1]), ripens) then
      for k = #answers, answered + 1, -1 do answers[k] = nil end
      for k = #granted, leased + 1, -1 do granted[k] = nil end
      answering, free_handlers, bytes, lates = nil, free, size, late
      call('ZADD', key, now + 2 * SECOND, found[i])
    end
  end
end

-- grantPulled visits the queue that was named, if its time has come.
local function grantPulled(key, horizon, ripens)
  local e = tonumber(call('ZSCORE', key, pulled))
  if not e or e > now + horizon or free_handlers <= 0 or request.barred and not ripens then return end
  if not tryFor(pulled, visitOne, pulled, e, ripens) then call('ZADD', key, now + 2 * SECOND, pulled) end
end

-- firstOf returns when the first in a set is due, as long as that is by the next poll. M[field] is an instant before
-- which nothing in it is; it is never far ahead, so that it would heal.
local function firstOf(set, field)
  if M[field] > now + POLL then return nil end
  local first = tonumber(call('ZRANGE', B .. set, '0', '0', 'WITHSCORES')[2])
  M[field] = min(first or math.huge, now + POLL + SECOND)
  return first
end

local clients, garbage = pulled and 0 or registerClient(), 0
local told = {} -- what of the grant others may know
local backup = min(POLL, OVERDUE * clients) -- how long this one waits behind the one that watches
if not replay() then
  if M.refiling > 0 or max(skew - M.filed, M.filed - skew) >= REFILE_AT then refileSome() end
  takeBack()
  if M.first_expiry > 0 and M.first_expiry <= wall then lates = expireDue(errors) end
  garbage = doChores()
  if pulled then
    grantPulled(B .. 'ps', 0, true)
    grantPulled(B .. 'pa', HORIZON, false)
  else
    if now >= M.first_timer then grantDue(B .. 's', 0, true) end
    if not request.barred then grantDue(B .. 'a', HORIZON, false) end
  end
  if request.leases and request.leases[1] then call('ZADD', B .. 'l', unpack(request.leases)) end
  if request.uncertainty > 0 and request.first then uncertain.noteReign() end
  -- Without a handler nothing was found out.
  local short = tonumber(ARGV[6]) > 0 and shares.short or last and last[4] or {}
  -- What this client is granted in steps of 10 s: the step, how many in it, how many in the one before.
  local lately, step = last and last[5] or { 0, 0, 0 }, floor(now / (10 * SECOND))
  if lately[1] ~= step then lately = { step, 0, lately[1] == step - 1 and lately[2] or 0 } end
  lately[2] = lately[2] + #granted / 3
  if #granted > 0 and not pulled then told = { 'g:' .. client, cmsgpack.pack(lately) } end
  call('SET', grant_key, cmsgpack.pack({ number, M.run, me, short, lately, unpack(granted) }), 'PX', 60000)
end

-- When to ask again, and who watches.
local head, ripens
if pulled then
  head, ripens = tonumber(call('ZSCORE', B .. 'pa', pulled)), tonumber(call('ZSCORE', B .. 'ps', pulled))
else
  head, ripens = shares.firstDeparture(), firstOf('s', 'first_timer')
end
local deadline = firstOf('l', 'first_lease')
local ask = now + POLL
if ripens then ask = min(ask, ripens) end
-- Half a horizon before the next departure, or the client's lead if that is longer.
if head then ask = min(ask, max(head, request.from) - max(HORIZON / 2, request.lead)) end
if deadline then ask = min(ask, deadline) end
-- Jobs that expire soon after one another are ended together.
local dies = M.first_expiry + skew
if M.first_expiry > 0 then ask = min(ask, dies <= now and now or max(dies, now + HORIZON / 2)) end
if M.refiling > 0 then ask = now end
ask = max(ask, now + 1000)
local offered = M.watcher == OFFERED and #shares.short > 0
-- What departs until half a horizon after a watcher should have asked is granted already.
local patience = M.watcher == OFFERED and OVERDUE or HORIZON / 2
local watches = M.watcher == client or M.watcher == '' or M.watcher == OFFERED and not offered
  or now >= M.watcher_at + patience
local more = head and head <= now + HORIZON -- than there are free handlers, or visits in a call
if pulled then
  if free_handlers <= 0 and more then ask = now end
  call('HSET', B .. 'q' .. pulled, 'polled', ask, 'asked', now)
elseif free_handlers <= 0 then
  -- No handler is free here: somebody else must look.
  if more then ask = now end
  if watches then
    M.watcher, M.watcher_at = '', now
    if clients > 1 and (head or shares.count > 0 or ripens or M.first_expiry > 0) then publishWake('') end
  end
elseif watches then
  if request.visits >= MAX_VISITS and more then ask = now end
  M.watcher, M.watcher_at = client, ask
  if shares.count > 0 and shares.noteShort() and clients > 1 then
    -- Somebody else may have a handler free for what this client begins to leave.
    M.watcher, M.watcher_at = OFFERED, now
    publishWake('')
  end
elseif offered then
  ask = min(ask, M.watcher_at + OVERDUE)
elseif now > M.watcher_at then
  ask = M.watcher_at + patience
else
  -- A watcher that asks once a horizon or more often is looked after by one of the others, its deputy.
  local wait, look, seen = M.watcher_at - now, backup, B .. 'c'
  local asked = tonumber(call('ZSCORE', seen, M.watcher))
  if asked and M.watcher_at - asked <= HORIZON then
    if M.deputy == M.watcher or (tonumber(call('ZSCORE', seen, M.deputy)) or 0) < now - OVERDUE then
      M.deputy = client
    end
    if M.deputy == client then look = min(backup, max(HORIZON / 2, 3 * wait)) end
  end
  ask = now + min(POLL, wait + look)
end
-- The client sleeps so that its request comes then: the way of the answer and of the request takes as long as its lead.
local next_in = max(ask - now - request.lead, min(ask - now, 1000))
finish(unpack(told))
return { next_in, backup, garbage, expired, lost, answers, errors, now, shares.short }
