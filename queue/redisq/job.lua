#!lua flags=allow-oom
-- Look at one job.
--
-- ARGV[2..3]  queue name, id
-- Returns  {0} no such queue; {1} no such job; {2, state, cost, attempts, appended, due or departure, ended, reason, position, eta or 0, 1 if that
--          is exact, the beginning of the record, as far as it is kept}

begin()
local id = ARGV[3]
local nr = number_of(ARGV[2])
local q = nr and load(nr)
if not q then return { 0 } end
local job, number, cancelled = remembered(q, id)
if not job then return { 1 } end

local HEAD = 1024 -- there the lane's key is

if sub(job, 1, 1) == 'E' then
  local e, pos = unpack_ended(job)
  return { 2, e.state, cost_of(job), e.attempts, e.appended, 0, e.ended, e.reason, 0, 0, 0, sub(job, pos, pos + HEAD) }
end
more(q)
local line = laned.line_of(q)
if number then
  if cancelled then return { 2, S.cancelled, cost_of(job), 0, time_at(job), 0, 0, '', 0, 0, 0, '' } end
  local rank, before = among_deferred(q, number)
  return { 2, S.deferred, cost_of(job), 0, time_at(job), 0, 0, '', line.waiting + rank, laned.aside_eta(q, line, cost_of(job), before, 0), 0, '' }
end
local entry = call('HGET', B .. 'f' .. nr, id)
local f = entry and unpack_flight(entry) or { state = S.waiting, attempts = 0, at = 0, reason = '' }
if f.state == S.waiting then f.at = 0 end
local position, eta, is_exact = 0, 0, 0
if f.state ~= S.leased then
  position, eta = laned.expected(q, line, id, job, f)
  if f.state == S.waiting and laned.exact(q, line) then is_exact = 1 end
end
return { 2, f.state, cost_of(job), f.attempts, time_at(job), f.at, 0, f.reason, position, eta, is_exact, sub(job, 17, 17 + HEAD) }
