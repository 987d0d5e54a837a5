#!lua
-- needs: replayoutcomes, changelog, answers, memory, ended, overflow, agenda, stored
-- for batches: batches
-- for lanes: lanestate
-- for limits: groups
-- for receiver: receiver
-- for expiry: expiry
--
-- Replay dead jobs: return them to their queue.
--
-- ARGV[2..5]  name of this call, queue name, number of jobs, actor; then their ids
-- Returns  0 no such queue; or for each: 0 it is not dead; 1 it is in the queue; 2 there is no room; 3 it is not a job;
--          the text of an error
--
-- Redis refuses this script while Redis is out of memory.

begin()
local answered = earlierAnswer(ARGV[2])
if answered then return answered end
if memoryFull() then raise('OOM', NEARLY_OUT) end
local nr = numberOf(ARGV[3])
if nr and M.firstExpiry > 0 and M.firstExpiry <= wall then expireDue() end
local q = nr and load(nr)
if not q then return 0 end
checkKeys(q)
checkDeadKeys(q.name)
checkChangeKeys('queue', q.name, ARGV[5])
withLanes(q)
loadOverflow(q)
local waiting, room, time = call('ZCARD', B .. 'w' .. nr), nextDeparture(q), pack('>I7', now)

local function noRoom(h, need)
  if q.size >= q.capacity or hasBacklog(q) and q.size - q.readmitted >= max(1, q.capacity - q.mark) then return true end
  if q.bytes + need > byteLimit(q) then return true end
  local rule = lanes.ruleOf(q, h.lane)
  local held, bytes = lanes.laneSize(q, h.lane)
  if rule.capacity > 0 and held >= rule.capacity or rule.bytes > 0 and bytes + need > rule.bytes then return true end
  return h.notBefore > wall and q.maxScheduled > 0 and call('ZCARD', B .. 't' .. nr) >= q.maxScheduled
end

-- judge decides about a job, and writes nothing. It also returns the record of a job that is to be replayed, and its
-- head.
local function judge(id)
  local of = deadRef(call('HGET', B .. 'D:' .. q.name, id))
  local job = remembered(q, id)
  if of and of ~= nr then
    -- A job of a former queue stays dead while this queue knows another job with that id.
    if job then return NOT_DEAD end
    job = call('GET', jobKey(of, id))
  end
  if not of or not job or sub(job, 1, 1) ~= 'E' then return NOT_DEAD end
  if #job < 53 then return BROKEN end
  local e, pos = unpackEnded(job)
  if e.state ~= S.dead or e.ended + q.retentionFor <= now then return NOT_DEAD end
  local record = sub(job, pos)
  if #record < 12 or sub(record, 1, 10) ~= sub(job, 17, 26) or byte(record, 11) > 127 then return BROKEN end
  local h = lanes.headOf(record, 11)
  local before = call('ZCARD', lanes.waitingKey(q, h.lane)) -- this also checks its type
  lanes.checkKeysFor(q, h)
  if byte(record, 11) % COSTS >= BATCHED then
    withBatches(q)
    h.label = batches.batchAt(record, 11)
    if not h.label then return BROKEN end
    h.own, h.appended = of == nr, e.appended
    if not batches.batchFits(q, h.label) then return NO_ROOM end
  end
  if noRoom(h, bytesOf(id, #record + BEFORE_RECORD)) then return NO_ROOM end
  return REPLAYED, 'L' .. time .. sub(job, 9, 16) .. record, h, before, of
end

local out, replayed, ids = {}, 0, {}
for i = 1, tonumber(ARGV[4]) do
  local id = ARGV[5 + i]
  local ok, outcome, job, h, before, of = pcall(judge, id)
  out[i] = ok and outcome or errorText(outcome)
  if ok and outcome == REPLAYED then
    call('SET', jobKey(nr, id), job)
    if of ~= nr then call('UNLINK', jobKey(of, id)) end
    removeDead(q, { id })
    if h.label then
      local b = h.own and batches.rejoinBatch(q, h.label, S.dead, h.appended, now)
        or batches.joinBatch(q, h.label, now) -- an earlier queue counted its death
      batches.noteLast(b, h, id, q.turn - h.priority * PRIORITY_STEP)
    end
    lanestate.enterLane(q, id, h, costOf(job), before, bytesOf(id, #job))
    took(#job)
    replayed = replayed + 1
    ids[replayed] = id
  end
end
logJobAct(q, ARGV[5], 'replayed', '', '', replayed, ids)
if replayed > 0 then
  add(q, 'replayed', replayed)
  if q.laned or q.group then
    lanestate.putOnAgendaSooner(q)
  elseif waiting == 0 and not q.asleep then
    call('ZADD', agendaKey(q, 'a'), 'LT', room, nr)
    wakeFor(room, q)
  end
end
save(q)
finish()
return keepAnswer(ARGV[2], out)
