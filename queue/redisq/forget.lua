#!lua flags=allow-oom
-- Drop dead jobs, and all that is known of them.
--
-- ARGV[2..4]  name of this call, queue name, number of jobs; then their ids
-- Returns  0 no such queue; or for each 1 if it was dropped, else 0

begin()
local answered = once(ARGV[2])
if answered then return answered end
local nr = number_of(ARGV[3])
local q = nr and load(nr)
if not q then return 0 end
sound(nr)
local out = {}
for i = 1, tonumber(ARGV[4]) do
  local id = ARGV[4 + i]
  local key = job_key(nr, id)
  local job = redis.pcall('GETRANGE', key, 0, 26)
  out[i] = 0
  if type(job) == 'string' and #job == 27 and sub(job, 1, 1) == 'E' and byte(job, 27) == S.dead and time_at(job) + q.rfor > now then
    call('UNLINK', key)
    M.td = M.td - call('ZREM', B .. 'd' .. nr, id)
    out[i] = 1
  end
end
finish()
return answer_once(ARGV[2], out)
