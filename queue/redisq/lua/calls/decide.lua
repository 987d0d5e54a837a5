#!lua flags=allow-oom
-- needs: changelog, answers, held, ended, agenda, stored, overflow
-- for backlog: backlog
-- for lanes: lanestate
-- for limits: groups
-- for receiver: receiver
--
-- Decide about held jobs.
--
-- ARGV[2..8]  name of this call, queue name, verdict, reason or '', number of jobs, actor, detail for the logs; then
--             the ids
-- Returns  0 no such queue; or for each job its state now, 0 if there is no such job, or the text of an error

begin()
local answered = earlierAnswer(ARGV[2])
if answered then return answered end
local nr = numberOf(ARGV[3])
local q = nr and load(nr)
if not q then return 0 end
checkKeys(q)
checkDeadKeys(q.name)
checkChangeKeys('queue', q.name, ARGV[7])
call('ZCARD', heldKey(q))
local verdict, reason, F = tonumber(ARGV[4]), ARGV[5], B .. 'f' .. nr
local well, dead, ends, released, freeing = {}, {}, {}, {}, newFreed()

-- deadJob returns the state of a job that died in a former queue of that name.
local function deadJob(id)
  local of = deadRef(call('HGET', B .. 'D:' .. q.name, id))
  local job = of and redis.pcall('GETRANGE', jobKey(of, id), 0, 26)
  if type(job) == 'string' and #job == 27 and byte(job, 27) == S.dead and timeAt(job) + q.retentionFor > now then
    return S.dead
  end
  return 0
end

-- decideHeld decides about a job, and returns its state.
local function decideHeld(id)
  local job, number, cancelled = remembered(q, id)
  if not job then return deadJob(id) end
  if sub(job, 1, 1) == 'E' then return unpackEnded(job).state end
  if number then return cancelled and S.cancelled or S.deferred end
  local entry = call('HGET', F, id)
  local f = entry and unpackLease(entry) or { state = S.waiting }
  if f.state ~= S.held then return f.state end
  if verdict == V.released then
    if f.lane ~= ZERO then call('ZCARD', lanes.waitingKey(q, f.lane)) end -- check its type
    f.state = S.waiting
    waitAgain(q, id, f)
    trackDeadline(q, id)
    call('HSET', F, id, packLease(f))
    released[#released + 1] = id
    return f.state
  end
  f.state = verdict == V.delivered and S.delivered or S.dead
  f.epoch, f.fence = f.settledEpoch, f.settledFence
  if reason ~= '' then f.reason = reason end
  endJob(q, id, f, f.state, f.verdict + DECIDED, freeing)
  if q.laned then lanestate.uncountInLane(q, f) end
  ends[#ends + 1] = id
  local list = verdict == V.delivered and well or dead
  list[#list + 1] = id
  return f.state
end

local out, ids = {}, {}
for i = 1, tonumber(ARGV[6]) do
  local before = #ends + #released
  local ok, state = pcall(decideHeld, ARGV[8 + i])
  if #ends + #released > before then ids[#ids + 1] = ARGV[8 + i] end
  out[i] = ok and state or errorText(state)
end
if ends[1] then
  call('HDEL', F, unpack(ends))
  call('ZREM', heldKey(q), unpack(ends))
  givePlacesBack(q, freeing)
  add(q, 'delivered', #well)
  rememberEnded(q, well)
  rememberDead(q, dead)
end
if released[1] then
  call('ZREM', heldKey(q), unpack(released))
  local e = putOnAgenda(q, 'LT')
  if e then wakeFor(e, q) end
end
logJobAct(q, ARGV[7], 'decided', ARGV[8], reason, #ids, ids)
if #ends + #released > 0 then call('HINCRBY', B, 'held', -#ends - #released) end
if hasBacklog(q) then announceRoom(q) end
save(q)
finish()
return keepAnswer(ARGV[2], out)
