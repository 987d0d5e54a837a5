#!lua flags=allow-oom
-- Look at one job.
--
-- ARGV[2..3]  queue name, id
-- Returns  {0} no such queue; {1} no such job; {2, state, cost, attempts, appended, due or departure, ended, reason, position, turn of the
--          job (of a deferred one, that it would have) less that of the first waiting one, exact, now, n, d, burst, tat, rem, last, last cost}

begin()
local id = ARGV[3]
local nr = number_of(ARGV[2])
local q = nr and load(nr)
if not q then return { 0 } end
local job, number, cancelled = remembered(q, id)
if not job then return { 1 } end
if sub(job, 1, 1) == 'E' then
  local e = unpack_ended(job)
  return { 2, e.state, cost_of(job), e.attempts, e.appended, 0, e.ended, e.reason, 0, 0, 0, now, 0, 0, 1, 0, 0, 0, 0 }
end
local W = B .. 'w' .. nr
local head = call('ZRANGE', W, 0, 0, 'WITHSCORES')[2]
if number then
  if cancelled then return { 2, S.cancelled, cost_of(job), 0, time_at(job), 0, 0, '', 0, 0, 0, now, 0, 0, 1, 0, 0, 0, 0 } end
  local rank, before = among_deferred(q, number)
  return { 2, S.deferred, cost_of(job), 0, time_at(job), 0, 0, '', call('ZCARD', W) + rank, q.turn - (tonumber(head) or q.turn) + before, 0,
    now, q.n, q.d, q.b, q.tat, q.rem, q.last, q.lc }
end
local entry = call('HGET', B .. 'f' .. nr, id)
local f = entry and unpack_flight(entry) or { state = S.waiting, attempts = 0, at = 0, reason = '' }
local position, ahead, exact = 0, 0, 0
if f.state == S.waiting then
  f.at = 0
  position = (call('ZRANK', W, id) or -1) + 1
  ahead = (tonumber(call('ZSCORE', W, id)) or 0) - (tonumber(head) or 0)
  if q.size == call('ZCARD', W) and not q.paused then exact = 1 end
end
finish()
return { 2, f.state, cost_of(job), f.attempts, time_at(job), f.at, 0, f.reason, position, ahead, exact, now, q.n, q.d, q.b, q.tat, q.rem, q.last, q.lc }
