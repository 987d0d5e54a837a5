#!lua
-- needs: replayoutcomes, changes, answers, memory, ended, overflow, agenda, stored
-- for lanes: lanestate
-- for limits: groups
-- for receiver: receiver
-- for expiry: expiry
--
-- Put dead jobs back into their queue.
--
-- ARGV[2..5]  name of this call, queue name, number of jobs, by whom; then their ids
-- Returns  0 no such queue; or for each: 0 it is not dead; 1 it is in the queue; 2 there is no room; 3 it is not a job;
--          the text of an error
--
-- Redis refuses it when it is out of memory.

begin()
local answered = earlier_answer(ARGV[2])
if answered then return answered end
if memory_full() then raise('OOM', NEARLY_OUT) end
local nr = number_of(ARGV[3])
if nr and M.first_expiry > 0 and M.first_expiry <= now then expire_due() end
local q = nr and load(nr)
if not q then return 0 end
check_keys(q)
check_dead_keys(q.name)
check_change_keys('queue', q.name)
with_lanes(q)
load_overflow(q)
local waiting, room, time = call('ZCARD', B .. 'w' .. nr), next_departure(q), pack('>I7', now)

local function no_room(h, need)
  if q.size >= q.cap or backlogged(q) and q.size - q.back >= max(1, q.cap - q.mark) then return true end
  if q.bytes + need > byte_limit(q) then return true end
  local rule = lanes.rule_of(q, h.lane)
  local held, bytes = lanes.lane_size(q, h.lane)
  if rule.cap > 0 and held >= rule.cap or rule.bytes > 0 and bytes + need > rule.bytes then return true end
  return h.not_before > now and q.msched > 0 and call('ZCARD', B .. 't' .. nr) >= q.msched
end

-- judge decides about a job, and writes nothing. It also returns the record of
-- one that is to be put back, and its head.
local function judge(id)
  local of, job = call('HGET', B .. 'D:' .. q.name, id), remembered(q, id)
  if of and of ~= nr then
    -- Of a former queue: it stays dead while this one knows another of that id.
    if job then return NOT_DEAD end
    job = call('GET', job_key(of, id))
  end
  if not of or not job or sub(job, 1, 1) ~= 'E' then return NOT_DEAD end
  if #job < 53 then return BROKEN end
  local e, pos = unpack_ended(job)
  if e.state ~= S.dead or e.ended + q.rfor <= now then return NOT_DEAD end
  local record = sub(job, pos)
  if #record < 12 or sub(record, 1, 10) ~= sub(job, 17, 26) or byte(record, 11) > 31 then return BROKEN end
  local h = lanes.head_of(record, 11)
  local before = call('ZCARD', lanes.waiting_key(q, h.lane)) -- looks at its type too
  lanes.check_keys_for(q, h)
  if no_room(h, bytes_of(id, #record + BEFORE_RECORD)) then return NO_ROOM end
  return REPLAYED, 'L' .. time .. sub(job, 9, 16) .. record, h, before, of
end

local out, replayed, ids = {}, 0, {}
for i = 1, tonumber(ARGV[4]) do
  local id = ARGV[5 + i]
  local ok, outcome, job, h, before, of = pcall(judge, id)
  out[i] = ok and outcome or error_text(outcome)
  if ok and outcome == REPLAYED then
    call('SET', job_key(nr, id), job)
    if of ~= nr then call('UNLINK', job_key(of, id)) end
    remove_dead(q.name, { id })
    lanestate.enter_job(q, id, h, cost_of(job), before, bytes_of(id, #job))
    took(#job)
    replayed = replayed + 1
    ids[replayed] = id
  end
end
log_jobs(q, ARGV[5], 'replayed', '', '', replayed, ids)
if replayed > 0 then
  add(q, 'replayed', replayed)
  if q.laned or q.group then
    lanestate.put_on_agenda_sooner(q)
  elseif waiting == 0 and not q.asleep then
    call('ZADD', agenda_key(q, 'a'), 'LT', room, nr)
    wake_for(room, q)
  end
end
save(q)
finish()
return keep_answer(ARGV[2], out)
