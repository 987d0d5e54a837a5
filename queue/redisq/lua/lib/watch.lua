-- needs: request, shares
--
-- When a client asks again, and which one watches: it looks at the agenda on behalf of all.

local MIN_SLEEP = 1000

-- registerClient notes that a client asks, and returns how many did so lately.
local function registerClient()
  if call('ZADD', B .. 'c', now, client) == 1 then
    call('HSET', B .. 'C', client, cmsgpack.pack({ ARGV[3], ARGV[4] }))
  end
  return call('ZCOUNT', B .. 'c', now - 4 * SECOND, '+inf')
end

-- isDeputy reports whether the client is the deputy, which it becomes if no other client is. The deputy looks after a
-- watcher that asks once a horizon or more often.
local function isDeputy()
  local seen = B .. 'c'
  local asked = tonumber(call('ZSCORE', seen, M.watcher))
  if not asked or M.watchUntil - asked > HORIZON then return false end
  if M.deputy == M.watcher or (tonumber(call('ZSCORE', seen, M.deputy)) or 0) < now - OVERDUE then
    M.deputy = client
  end
  return M.deputy == client
end

-- firstOf returns when the first member of a set is due, if that is by the next poll. M[field] is an instant before
-- which none is due. It is never far ahead, so that a wrong one heals.
local function firstOf(set, field)
  if M[field] > now + POLL then return nil end
  local first = tonumber(call('ZRANGE', B .. set, '0', '0', 'WITHSCORES')[2])
  M[field] = min(first or math.huge, now + POLL + SECOND)
  return first
end

-- untilNext returns the time until the client should ask, because a job can depart, or a timer, a lease or an expiry
-- is due.
local function untilNext(departs, ripens)
  local at, deadline = now + POLL, firstOf('l', 'firstLease')
  if ripens then at = min(at, ripens) end
  if request.again then at = min(at, request.again) end
  -- Half a horizon before the departure, or the client's lead if that is longer.
  if departs then at = min(at, max(departs, request.from) - max(HORIZON / 2, request.lead)) end
  if deadline then at = min(at, deadline) end
  -- Jobs that expire soon after one another are ended together.
  local dies = M.firstExpiry + skew
  if M.firstExpiry > 0 then at = min(at, dies <= now and now or max(dies, now + HORIZON / 2)) end
  if M.refiling > 0 then at = now end
  return max(at - now, MIN_SLEEP)
end

-- planSleep decides after what time the client asks again, and who watches. The watch goes to another client if this
-- one has no handler free, or begins to leave a queue to others. clients is the number of clients that asked lately,
-- backup the time after which this one looks after the watcher.
local function planSleep(clients, backup)
  local departs, ripens
  if pulled then
    departs, ripens = tonumber(call('ZSCORE', B .. 'pa', pulled)), tonumber(call('ZSCORE', B .. 'ps', pulled))
    local q = pulledParent and load(pulled)
    local g = q and q.group
    if g then departs = groups.pullsFrom(q, departs) end
    local wakes = g and g.asleep and (g.pausedUntil or g.pauseEndedAt)
    if wakes then ripens = min(ripens or math.huge, wakes + skew) end
  else
    departs, ripens = shares.firstDeparture(), firstOf('s', 'firstTimer')
  end
  local pause, full = untilNext(not (pulled and request.again) and departs, ripens), freeHandlers <= 0
  local more = departs and departs <= now + HORIZON -- more is due than free handlers, or visits in a call
  if full and more then pause = 0 end
  if pulled then
    call('HSET', B .. 'q' .. pulled, 'pullersAskAt', now + pause, 'lastAsked', now)
    return pause
  end
  local offered = M.watcher == OFFERED and #shares.short > 0
  -- What departs until half a horizon after a watcher should have asked is granted already.
  local patience = M.watcher == OFFERED and OVERDUE or HORIZON / 2
  local watches = M.watcher == client or M.watcher == '' or M.watcher == OFFERED and not offered
    or now >= M.watchUntil + patience
  if full then
    if not watches then return pause end
    M.watcher, M.watchUntil = '', now
    if clients > 1 and (departs or shares.count > 0 or ripens or M.firstExpiry > 0) then publishWake('') end
    return pause
  end
  if watches then
    if request.visits >= MAX_VISITS and more then pause = 0 end
    -- It takes about the lead until the client has the answer and can pause.
    M.watcher, M.watchUntil = client, now + max(pause, request.lead + min(pause, MIN_SLEEP))
    if shares.count > 0 and shares.anyNewlyShort() and clients > 1 then
      -- Another client may have a handler free for what this one begins to leave.
      M.watcher, M.watchUntil = OFFERED, now
      publishWake('')
    end
    return pause
  end
  if offered then return min(pause, M.watchUntil + OVERDUE - now) end
  if now > M.watchUntil then return M.watchUntil + patience - now end
  local wait, look = M.watchUntil - now, backup
  if isDeputy() then look = min(backup, max(HORIZON / 2, 3 * wait)) end
  return min(POLL, wait + look)
end
