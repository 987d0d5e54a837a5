#!lua flags=allow-oom
-- needs: ended, overflow, versions, stored
-- for lanes: eta
-- for limits: groups
-- for receiver: receiver
--
-- Read one job.
--
-- ARGV[2..3]  queue name, id
-- Returns  {0} no such queue; {1} no such job; {2, state, cost, attempts, appended, due, departure or held since,
--          ended, reason, position, ETA or 0, 1 if that is exact, the record, as far as it is kept, its timeline as
--          stored, departure of its last attempt or 0, the client of that, why it waits or '', until when or 0, the
--          reason, the queue that this is about or '', who paused it, skew (see clock.lua)}; of a deferred job the last
--          ones are 'deferred', the wall clock, the spec, which has the hours, '', '', skew

begin()
local name, id = ARGV[2], ARGV[3]
local nr = numberOf(name)
local q = nr and load(nr)

-- deadJob returns the record of a job that died in a former queue of that name.
local function deadJob()
  local k = retention(name)
  local of = deadRef(k and call('HGET', B .. 'D:' .. name, id))
  local job = of and redis.pcall('GET', jobKey(of, id))
  if type(job) == 'string' and #job > 53 and sub(job, 1, 1) == 'E' and byte(job, 27) == S.dead
    and timeAt(job) + k.retentionFor > now then
    return job
  end
end

local job, number, cancelled
if q then job, number, cancelled = remembered(q, id) end
if not job then job = deadJob() end
if not job then return { q and 1 or 0 } end

-- drainer returns the name of a client by its number, '' if unknown.
local function drainer(number)
  local name = number and redis.pcall('HGET', B .. 'k', number)
  return type(name) == 'string' and name or ''
end

if sub(job, 1, 1) == 'E' then
  local e, pos = unpackEnded(job)
  local record = e.state == S.dead and sub(job, pos) or ''
  return { 2, e.state, costOf(job), e.attempts, e.appended, 0, e.ended, e.reason, 0, 0, 0, record, e.timeline or '',
    e.departed or 0, drainer(e.client), '', 0, '', '', '', skew }
end
withLanes(q)
local counts = eta.countWaiting(q)
if number then
  if cancelled then
    return { 2, S.cancelled, costOf(job), 0, timeAt(job), 0, 0, '', 0, 0, 0, '', '', 0, '', '', 0, '', '', '', skew }
  end
  local rank, before = rankOfDeferred(q, number)
  return { 2, S.deferred, costOf(job), 0, timeAt(job), 0, 0, '', counts.waiting + rank,
    eta.etaDeferred(q, counts, costOf(job), before, 0), 0, '', '', 0, '',
    'deferred', wall, specOf(name), '', '', skew }
end
local entry = call('HGET', B .. 'f' .. nr, id)
local f = entry and unpackLease(entry) or { state = S.waiting, attempts = 0, due = 0, reason = '' }
if f.state == S.waiting then f.due = 0 end
local position, leaves, etaIsExact = 0, 0, 0
local by, till, reason, whose, who = '', 0, '', '', ''

-- why returns why a waiting or scheduled job has not left: the cause, until when, a reason, and the other queue that
-- this is about. The arguments are what decides its ETA.
local function why(rate, quota, together)
  local failed = f.attempts > 0 or (f.timeline or '') ~= ''
  if f.due > wall then return failed and 'backing_off' or 'scheduled', f.due, failed and f.reason or '' end
  local g = q.group
  local still = q.paused and q or g and g.paused and g
  if still then
    local text, actor = unpack(call('HMGET', B .. 'q' .. still.nr, 'pauseReason', 'pausedBy'))
    return 'paused', still.pausedUntil or 0, text or '', still == q and '' or g.name, actor or ''
  end
  local h = q.receiver
  if h and h.opened > 0 then return 'down', h.stop > now and h.stop or 0, h.lastFailure end
  if h and h.stop > now then return h.cause, h.stop, h.reason end
  local parent = g and g ~= q and g.name or ''
  for _, of in ipairs({ q, g }) do
    local opens = of.hours and limits.nextOpen(of.hours, now) or now
    if opens > now then return 'hours', opens, specOf(of.name), of ~= q and parent end
  end
  local lane = lanes.headOf(job, 27).lane
  local rule = lanes.ruleOf(q, lane)
  local opens = rule.hours and limits.nextOpen(limits.laneHours(q, rule), now) or now
  if opens > now then return 'lane_hours', opens, (specOf(q.name)) end
  local most, flying = rule.maxInFlight, lanes.inFlight(q, lane)
  if f.inFlight then flying = flying - 1 end -- it does not block itself
  if q.ordered and flying > 0 then return 'ordered', 0, '' end
  if most > 0 and flying >= most then return 'lane_max_in_flight', 0, '' end
  local stopsUntil = h and receiver.stopsUntil(q, lane) or 0
  if stopsUntil > now then return 'throttled', stopsUntil, '' end
  local away = counts.waiting + call('ZCARD', B .. 't' .. nr) + call('ZCARD', B .. 'K' .. nr)
  if q.maxInFlight > 0 and q.size - away >= q.maxInFlight then return 'max_in_flight', 0, '' end
  if leaves <= now then return q.pull and 'puller' or 'drainer', 0, '' end
  if quota then
    local opens, reason = limits.usedUp(quota), quota.name
    if quota.ramp then
      local ends, used, step = limits.windowAt(quota, now)
      local spec = specOf(together and parent ~= '' and parent or q.name)
      reason = string.format('%s\n%.0f %.0f %.0f\n%s', reason, ends, used, step, spec)
    end
    return rate, opens > now and opens or 0, reason, together and parent
  end
  return rate, 0, '', together and parent
end

if f.state == S.held then
  by, reason = 'held', f.reason
elseif f.state ~= S.leased then
  local rate, quota, together
  position, leaves, rate, quota, together = eta.etaOf(q, counts, id, job, f)
  by, till, reason, whose, who = why(rate, quota, together)
  if f.state == S.waiting and eta.etaIsExact(q, counts) then etaIsExact = 1 end
end
local leased = f.state == S.leased
return { 2, f.state, costOf(job), f.attempts, timeAt(job), f.due, 0, f.reason, position, leaves, etaIsExact,
  sub(job, 17), f.timeline or '', leased and f.due or 0,
  leased and drainer(f.client) or '', by, till, reason, whose or '', who or '', skew }
