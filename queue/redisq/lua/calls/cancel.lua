#!lua flags=allow-oom
-- needs: changelog, unsent, overflow
-- for lanes: lanestate
-- for limits: groups
-- for receiver: receiver
--
-- Cancel a job that has not left.
--
-- ARGV[2..4]  queue name, id, actor
-- Returns  {0} no such queue; {1} no such job; {2, the state it is in now}

begin()
call('ZCARD', B .. 'o')
local id = ARGV[3]
local nr = numberOf(ARGV[2])
local q = nr and load(nr)
if not q then return { 0 } end
checkKeys(q)
checkChangeKeys('queue', q.name, ARGV[4])
local job, number, cancelled = remembered(q, id)
if not job then return { 1 } end
if sub(job, 1, 1) == 'E' then return { 2, unpackEnded(job).state } end

if number then
  if cancelled then return { 2, S.cancelled } end
  -- The record stays, so that the job is dropped when it is readmitted.
  local _, _, bytes = deferralOf(job)
  call('SET', jobKey(nr, id), sub(job, 1, 26) .. pack(DEFERRED, number, 1, bytes), 'KEEPTTL')
  uncountDeferral(q, job)
  local label = deferredBatch(q, job)
  if label then batches.endInBatch(q, label, id, S.cancelled) end
  trackBacklog(q)
  add(q, 'cancelled', 1)
  if hasBacklog(q) then announceRoom(q) end
else
  withLanes(q)
  local entry = call('HGET', B .. 'f' .. nr, id)
  local state = entry and unpackLease(entry).state or S.waiting
  if state == S.leased or state == S.held then return { 2, state } end
  endUnsent(q, { { lane = state == S.waiting and lanes.headOf(job, 27).lane or nil, ids = { id } } }, S.cancelled)
end
logJobAct(q, ARGV[4], 'cancelled', '', '', 1, { id })
save(q)
finish()
return { 2, S.cancelled }
