-- needs: ended, stored
-- for backlog: backlog
--
-- Jobs that end without having left: canceled, purged or expired.

-- findFirstExpiry notes again when the first job of a queue, and of the partition, expires.
local function findFirstExpiry(q)
  local first = call('ZRANGE', B .. 'T' .. q.nr, '0', '0', 'WITHSCORES')[2]
  if first then call('ZADD', B .. 'T', first, q.nr) else call('ZREM', B .. 'T', q.nr) end
  M.firstExpiry = tonumber(call('ZRANGE', B .. 'T', '0', '0', 'WITHSCORES')[2]) or 0
end

-- forgetExpiries removes jobs from the set of expiring ones.
local function forgetExpiries(q, ids)
  call('ZREM', B .. 'T' .. q.nr, unpack(ids))
  findFirstExpiry(q)
end

-- countEnded counts jobs that are about to end. It may raise, so it comes before anything is written.
local function countEnded(q, state, count) add(q, state == S.expired and 'expired' or 'cancelled', count) end

-- endRemoved ends jobs that are no longer in their lane or among the scheduled ones.
local function endRemoved(q, ids, state)
  local F, freeing = B .. 'f' .. q.nr, newFreed()
  for i, entry in ipairs(call('HMGET', F, unpack(ids))) do
    endUnsentJob(q, ids[i], entry and #entry >= SETTLED and unpackLease(entry), state, freeing)
  end
  call('HDEL', F, unpack(ids))
  givePlacesBack(q, freeing)
  if q.expiring then forgetExpiries(q, ids) end
  rememberEnded(q, ids)
  if hasBacklog(q) then announceRoom(q) end
end

-- removeFromLane takes waiting jobs out of a lane.
local function removeFromLane(q, lane, ids)
  local W = lanes.waitingKey(q, lane)
  call('ZREM', W, unpack(ids))
  lanestate.removeWaiting(q, lane, #ids)
  if q.laned and call('EXISTS', W) == 0 then lanestate.takePlaceAway(q, lane) end
  if lane == ZERO then return end
  local bytes = 0
  for _, id in ipairs(ids) do bytes = bytes + bytesOf(id, call('STRLEN', jobKey(q.nr, id))) end
  lanestate.countInLane(q, lane, -#ids, -bytes)
end

-- unschedule takes out scheduled jobs.
local function unschedule(q, ids)
  call('ZREM', B .. 't' .. q.nr, unpack(ids))
  M.scheduled = M.scheduled - #ids
  for _, entry in ipairs(call('HMGET', B .. 'f' .. q.nr, unpack(ids))) do
    if entry and #entry >= SETTLED then lanestate.endInLane(q, unpackLease(entry)) end
  end
end

-- endUnsent ends jobs in groups: each group has ids, and the lane in which they wait, or none if they are scheduled. It
-- returns how many. withLanes must have been called for the queue.
local function endUnsent(q, found, state)
  local all = {}
  for _, some in ipairs(found) do
    if some.lane then call('ZCARD', lanes.waitingKey(q, some.lane)) end -- check its type
    for _, id in ipairs(some.ids) do all[#all + 1] = id end
  end
  local count = #all
  if count == 0 then return 0 end
  countEnded(q, state, count)
  for _, some in ipairs(found) do
    if some.lane then removeFromLane(q, some.lane, some.ids) elseif some.ids[1] then unschedule(q, some.ids) end
  end
  endRemoved(q, all, state)
  lanestate.putOnAgendaSooner(q)
  return count
end
