#!lua flags=allow-oom
-- Take a job back that has not left.
--
-- ARGV[2..3]  queue name, id
-- Returns  {0} no such queue; {1} no such job; {2, the state it is in now}

begin()
call('ZCARD', B .. 'o')
local id = ARGV[3]
local nr = number_of(ARGV[2])
local q = nr and load(nr)
if not q then return { 0 } end
sound(nr)
local job, number, cancelled = remembered(q, id)
if not job then return { 1 } end
if sub(job, 1, 1) == 'E' then return { 2, unpack_ended(job).state } end

if number then
  if cancelled then return { 2, S.cancelled } end
  -- The record stays: by it the job is dropped on its way back.
  call('SET', job_key(nr, id), sub(job, 1, 26) .. pack(DEFERRED, number, 1), 'KEEPTTL')
  discount(q, job)
  note_backlog(q)
else
  more(q)
  local entry = call('HGET', B .. 'f' .. nr, id)
  local f = entry and unpack_flight(entry)
  local state, lane = f and f.state or S.waiting, laned.head_of(job, 27).lane
  if state == S.leased then return { 2, state } end
  if state == S.waiting then
    local W = laned.waiting_key(q, lane)
    call('ZREM', W, id)
    laned.unwait(q, lane, 1)
    if q.laned and call('ZCARD', W) == 0 then laned.no_place(q, lane) end
  else
    call('ZREM', B .. 't' .. nr, id)
    M.ts = M.ts - 1
    if f.counted then laned.landed(q, lane) end
  end
  laned.unheld(q, lane)
  call('HDEL', B .. 'f' .. nr, id)
  freed(q, 1, drop_job(q, id, f, S.cancelled))
  ended(q, { id })
  if q.laned then laned.sooner(q) else agenda(q, 'LT') end
end
add(q, 'cancelled', 1)
speak_up(q)
save(q)
finish()
return { 2, S.cancelled }
