#!lua flags=allow-oom
-- needs: changelog, answers, dead, hasdead, stored
--
-- Drop dead jobs, with all that is known of them.
--
-- ARGV[2..5]  name of this call, queue name, number of jobs, actor; then their ids
-- Returns  0 no such queue, and no dead jobs of a former one; or for each 1 if it was dropped, else 0

begin()
local answered = earlierAnswer(ARGV[2])
if answered then return answered end
local k = retention(ARGV[3])
if not k or not k.nr and not hasDead(k) then return 0 end
checkDeadKeys(k.name)
checkChangeKeys('queue', k.name, ARGV[5])
local out, ids = {}, {}
for i = 1, tonumber(ARGV[4]) do
  local id = ARGV[5 + i]
  local of = deadRef(call('HGET', B .. 'D:' .. k.name, id))
  local key = of and jobKey(of, id)
  local job = of and redis.pcall('GETRANGE', key, 0, 26)
  out[i] = 0
  if type(job) == 'string' and #job == 27 and sub(job, 1, 1) == 'E' and byte(job, 27) == S.dead
    and timeAt(job) + k.retentionFor > now then
    call('UNLINK', key)
    removeDead(k, { id })
    out[i] = 1
    ids[#ids + 1] = id
  end
end
logJobAct(k, ARGV[5], 'forgotten', '', '', #ids, ids)
if ids[1] and not k.nr then markDeleted('queue', k.name) end
finish()
return keepAnswer(ARGV[2], out)
