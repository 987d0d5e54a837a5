#!lua flags=allow-oom
-- needs: changes, answers, held, ended, agenda, stored, overflow
-- for backlog: backlog
-- for lanes: lanestate
-- for limits: groups
-- for receiver: receiver
--
-- Decide about held jobs.
--
-- ARGV[2..8]  name of this call, queue name, verdict, reason or '', number of jobs, by whom, what is recorded that they
--             became; then their ids
-- Returns  0 no such queue; or for each the state it is in now, 0 if there is no such job; the text of an error

begin()
local answered = earlier_answer(ARGV[2])
if answered then return answered end
local nr = number_of(ARGV[3])
local q = nr and load(nr)
if not q then return 0 end
check_keys(q)
check_dead_keys(q.name)
check_change_keys('queue', q.name)
call('ZCARD', held_key(q))
local verdict, reason, F = tonumber(ARGV[4]), ARGV[5], B .. 'f' .. nr
local well, dead, ends, released, freeing = {}, {}, {}, {}, new_freed()

-- former returns the state of a job that died in a former queue of the name.
local function former(id)
  local of = call('HGET', B .. 'D:' .. q.name, id)
  local job = of and redis.pcall('GETRANGE', job_key(of, id), 0, 26)
  if type(job) == 'string' and #job == 27 and byte(job, 27) == S.dead and time_at(job) + q.rfor > now then
    return S.dead
  end
  return 0
end

-- decide decides about a job, and returns its state.
local function decide(id)
  local job, number, cancelled = remembered(q, id)
  if not job then return former(id) end
  if sub(job, 1, 1) == 'E' then return unpack_ended(job).state end
  if number then return cancelled and S.cancelled or S.deferred end
  local entry = call('HGET', F, id)
  local f = entry and unpack_lease(entry) or { state = S.waiting }
  if f.state ~= S.held then return f.state end
  if verdict == V.released then
    if f.lane ~= ZERO then call('ZCARD', lanes.waiting_key(q, f.lane)) end -- looks at its type
    f.state = S.waiting
    wait_again(q, id, f)
    note_expiry_again(q, id)
    call('HSET', F, id, pack_lease(f))
    released[#released + 1] = id
    return f.state
  end
  f.state = verdict == V.delivered and S.delivered or S.dead
  f.epoch, f.fence = f.pepoch, f.pfence
  if reason ~= '' then f.reason = reason end
  end_job(q, id, f, f.state, f.pverdict + DECIDED, freeing)
  if q.laned then lanestate.uncount_in_lane(q, f) end
  ends[#ends + 1] = id
  local list = verdict == V.delivered and well or dead
  list[#list + 1] = id
  return f.state
end

local out, ids = {}, {}
for i = 1, tonumber(ARGV[6]) do
  local before = #ends + #released
  local ok, state = pcall(decide, ARGV[8 + i])
  if #ends + #released > before then ids[#ids + 1] = ARGV[8 + i] end
  out[i] = ok and state or error_text(state)
end
if ends[1] then
  call('HDEL', F, unpack(ends))
  call('ZREM', held_key(q), unpack(ends))
  give_places_back(q, freeing)
  add(q, 'delivered', #well)
  remember_ended(q, well)
  remember_dead(q, dead)
end
if released[1] then
  call('ZREM', held_key(q), unpack(released))
  local e = put_on_agenda(q, 'LT')
  if e then wake_for(e, q) end
end
log_jobs(q, ARGV[7], 'decided', ARGV[8], reason, #ids, ids)
if #ends + #released > 0 then call('HINCRBY', B, 'held', -#ends - #released) end
if backlogged(q) then announce_room(q) end
save(q)
finish()
return keep_answer(ARGV[2], out)
