#!lua flags=allow-oom
-- Pause or resume a queue.
--
-- ARGV[2..4]  name, '1' to pause or '' to resume, reason
-- Returns  1, or 0 when there is no such queue

begin()
local nr = number_of(ARGV[2])
local q = nr and load(nr)
if not q then return 0 end
local was_paused = q.paused
q.paused = ARGV[3] == '1'
call('HSET', B .. 'q' .. nr, 'paused', ARGV[3], 'preason', ARGV[4])
if q.paused ~= was_paused then
  if q.group == q then set(q, 'gsince', now) end
  local e = agenda(q)
  if e then due(e) end
  save(q)
end
finish()
return 1
