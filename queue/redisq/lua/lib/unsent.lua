-- needs: ended, backlog
--
-- Shared, behind ended.lua and backlog.lua: jobs that end without having left: cancelled, or expired.

-- first_to_expire finds out when the first of a queue's jobs expires.
local function first_to_expire(q)
  local first = call('ZRANGE', B .. 'T' .. q.nr, 0, 0, 'WITHSCORES')[2]
  if first then call('ZADD', B .. 'T', first, q.nr) else call('ZREM', B .. 'T', q.nr) end
  M.te = tonumber(call('ZRANGE', B .. 'T', 0, 0, 'WITHSCORES')[2]) or 0
end

-- spare takes jobs out of those that expire.
local function spare(q, ids)
  call('ZREM', B .. 'T' .. q.nr, unpack(ids))
  first_to_expire(q)
end

-- count_left counts jobs that are about to end. If that cannot be it raises, so it comes before what is written.
local function count_left(q, state, count) add(q, state == S.expired and 'expired' or 'cancelled', count) end

-- drop ends jobs that are in their place no more.
local function drop(q, ids, state)
  local F, freeing = B .. 'f' .. q.nr, places()
  for i, entry in ipairs(call('HMGET', F, unpack(ids))) do
    drop_job(q, ids[i], entry and #entry >= SETTLED and unpack_flight(entry), state, freeing)
  end
  call('HDEL', F, unpack(ids))
  freed(q, freeing)
  if q.expiring then spare(q, ids) end
  ended(q, ids)
  speak_up(q)
end

-- leave_lane takes jobs out of a lane in which they wait.
local function leave_lane(q, lane, ids)
  local W = lanes.waiting_key(q, lane)
  call('ZREM', W, unpack(ids))
  lanestate.unwait(q, lane, #ids)
  if q.laned and call('EXISTS', W) == 0 then lanestate.no_place(q, lane) end
  if lane == ZERO then return end
  local bytes = 0
  for _, id in ipairs(ids) do bytes = bytes + bytes_of(id, call('STRLEN', job_key(q.nr, id))) end
  lanestate.hold(q, lane, -#ids, -bytes)
end

-- unschedule takes out jobs that are scheduled.
local function unschedule(q, ids)
  call('ZREM', B .. 't' .. q.nr, unpack(ids))
  M.ts = M.ts - #ids
  for _, entry in ipairs(call('HMGET', B .. 'f' .. q.nr, unpack(ids))) do
    if entry and #entry >= SETTLED then lanestate.ended_of(q, unpack_flight(entry)) end
  end
end

-- leave ends jobs, some at a time: each waits in the lane that is named, or is scheduled if none is.
-- Returns how many. The queue is one for which more was called.
local function leave(q, found, state)
  local all = {}
  for _, some in ipairs(found) do
    if some.lane then call('ZCARD', lanes.waiting_key(q, some.lane)) end -- looks at its type
    for _, id in ipairs(some.ids) do all[#all + 1] = id end
  end
  local count = #all
  if count == 0 then return 0 end
  count_left(q, state, count)
  for _, some in ipairs(found) do
    if some.lane then leave_lane(q, some.lane, some.ids) elseif some.ids[1] then unschedule(q, some.ids) end
  end
  drop(q, all, state)
  lanestate.sooner(q)
  return count
end
