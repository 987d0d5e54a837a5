-- needs: ended, room
-- gives: makeRoom
--
-- Makes room for jobs that came in; a part of its own, because few appends need it.

-- makeRoom forgets ended jobs, and drops the oldest dead ones, until the queue's records fit in max_bytes. It is called
-- after the jobs of a call came in or were deferred. A later change of state moves the job's bytes or frees them, and
-- never adds any.
local function makeRoom(q)
  local most = byteLimit(q)
  local over = q.bytes + boundDeferredBytes(q) + (q.deadBytes or 0) - most
  local key, remembered = B .. 'e' .. q.nr, max(64, floor(most / 8 / JOB_BYTES))
  local spare = call('LLEN', key) - remembered
  local many = min(spare, ceil((over + spare * JOB_BYTES) / JOB_BYTES))
  while many > 0 do
    for _, entry in ipairs(call('LPOP', key, min(many, 500))) do dropEndedJob(q.nr, sub(entry, 8), sub(entry, 1, 7)) end
    many = many - 500
  end
  if over <= 0 or call('HGET', B .. 'q' .. q.nr, 'retention.full') == 'reject' then return end
  local firm = q.bytes + boundDeferredBytes(q) - most
  while firm + (q.deadBytes or 0) > 0 and trimDead(q, firm + (q.deadBytes or 0)) > 0 do end
end
