#!lua flags=allow-oom
-- needs: request, shares, watch, lostleases, departures
-- reads: outflowStart, outflowCur, outflowPrev
-- for lanes: turns
-- for limits: groupvisit
-- for receiver: receiver
-- for expiry: expiry
-- for visits: visit
-- for refile: refile
--
-- Take back leases that ran out, then grant departures within the horizon.
--
-- ARGV[2..13]  client id, client name, client version, request number, limit of jobs, limit of bytes, name for
--              timelines, name of the pull queue or '', lead and uncertainty in us, id of the client's clock, the last
--              instant that the engine's clock can show as the client knows it, or ''
-- ARGV[14..]   in pairs: name of a queue, limit of its jobs
-- Returns  {-1} if there is no queue of that name, {-2} if it is not a pull queue, else {next in us, backup in us,
--          garbage, expired, lost, answers, errors, now, short}: expired {queue name...}, one a lease; lost {queue
--          name, slots...}; errors {queue number, text...}; answers {queue name, revision, lease in us, epoch, rows}
--          with rows five entries a job: id, fence, attempt, departs in us from now, job; short {queue name...}

local REFILE_AT = 10000 -- the difference of the clocks, in us, from which queues are filed again
local number = tonumber(ARGV[5])

-- replay answers a repeated request with what is left of its grant, because the reply was lost. A request that a later
-- one overtook gets no jobs.
local function replay()
  if not last or number > last[LAST_NUMBER] then return false end
  if number < last[LAST_NUMBER] then return true end
  local function answer(nr, id, fence)
    local q, entry = load(nr), call('HGET', B .. 'f' .. nr, id)
    local f = entry and unpackLease(entry)
    if q and f and f.state == S.leased and f.epoch == last[LAST_RUN] and f.fence == fence then
      local rows, job = rowsOf(q, f.epoch), call('GET', jobKey(nr, id))
      if job then
        for _, v in ipairs({ id, fence, f.attempts + 1, f.due - now, job }) do rows[#rows + 1] = v end
        freeHandlers = freeHandlers - 1
      end
    end
  end
  for i = LAST_GRANTED, #last, 3 do tryFor(last[i], answer, last[i], last[i + 1], last[i + 2]) end
  return true
end

-- grantDue visits due queues on the agenda, or due timers. The grants of a failed visit are taken out of the answer;
-- they were not written.
local function grantDue(key, horizon, ripens)
  local most = MAX_VISITS + (#ARGV - 13) / 2 -- queues that are passed over do not count
  local found = call('ZRANGEBYSCORE', key, '-inf', now + horizon, 'WITHSCORES', 'LIMIT', 0, most)
  for i = 1, #found, 2 do
    if freeHandlers <= 0 or request.visits >= MAX_VISITS or ripens and request.toRipen <= 0 then return end
    local answered, leased, free, size, late = #answers, #granted, freeHandlers, bytes, lates
    local passed = not ripens and shares.passOver(found[i])
    if not passed and not ripens then request.visits = request.visits + 1 end
    if not passed and not tryFor(found[i], visitOne, found[i], tonumber(found[i + 1]), ripens) then
      for k = #answers, answered + 1, -1 do answers[k] = nil end
      for k = #granted, leased + 1, -1 do granted[k] = nil end
      answering, freeHandlers, bytes, lates = nil, free, size, late
      call('ZADD', key, now + 2 * SECOND, found[i])
    end
  end
end

-- grantPulled visits the named pull queue if it is due.
local function grantPulled(key, horizon, ripens)
  local e = tonumber(call('ZSCORE', key, pulled))
  if not e or e > now + horizon or freeHandlers <= 0 or request.barred and not ripens then return end
  if not tryFor(pulled, visitOne, pulled, e, ripens) then call('ZADD', key, now + 2 * SECOND, pulled) end
end

local clients, garbage = pulled and 0 or registerClient(), 0
local told = {} -- recent grants of this client, kept for totals.lua
local backup = min(POLL, OVERDUE * clients) -- after this time the client looks after the watcher
if not replay() then
  if M.refiling > 0 or max(skew - M.filed, M.filed - skew) >= REFILE_AT then refileSome() end
  takeBack()
  if M.firstExpiry > 0 and M.firstExpiry <= wall then lates = expireDue(errors) end
  garbage = doChores()
  if pulled then
    local g = pulledParent and load(pulledParent)
    local e = g and g.pauseEndedAt and tonumber(call('ZSCORE', B .. 's', pulledParent))
    if e and e <= now then tryFor(pulledParent, visitOne, pulledParent, e, true) end -- the parent's pause is over
    grantPulled(B .. 'ps', 0, true)
    grantPulled(B .. 'pa', HORIZON, false)
    if pulledParent and tonumber(ARGV[6]) > 0 then groups.claim(load(pulled), freeHandlers > 0) end
  else
    if now >= M.firstTimer then grantDue(B .. 's', 0, true) end
    if not request.barred then grantDue(B .. 'a', HORIZON, false) end
  end
  if request.leases and request.leases[1] then call('ZADD', B .. 'l', unpack(request.leases)) end
  if request.uncertainty > 0 and request.first then reign.noteReign() end
  -- A request without free handlers learns nothing about shares.
  local short = tonumber(ARGV[6]) > 0 and shares.short or last and last[LAST_SHORT] or {}
  -- What this client is granted in steps of 10 s: the step, how many in it, how many in the one before.
  local step, count, before = unpack(last and last[LAST_LATELY] or { 0, 0, 0 })
  local present = floor(now / (10 * SECOND))
  if step ~= present then step, count, before = present, 0, step == present - 1 and count or 0 end
  local lately = { step, count + #granted / 3, before }
  if #granted > 0 and not pulled then told = { 'g:' .. client, cmsgpack.pack(lately) } end
  call('SET', grantKey, cmsgpack.pack({ number, M.run, me, short, lately, unpack(granted) }), 'PX', 60000)
end

local pause = planSleep(clients, backup)
finish(unpack(told))
-- The client sleeps for less, so that its request comes on time: the answer and the request take as long as its lead.
return { max(pause - request.lead, min(pause, MIN_SLEEP)), backup, garbage, expired, lost, answers, errors, now,
  shares.short }
