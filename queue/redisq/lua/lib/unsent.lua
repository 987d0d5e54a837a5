-- needs: ended, stored
-- for backlog: backlog
--
-- Jobs that end without having left: cancelled, purged or expired.

-- find_first_expiry notes anew when the first job of a queue, and of the partition, expires.
local function find_first_expiry(q)
  local first = call('ZRANGE', B .. 'T' .. q.nr, '0', '0', 'WITHSCORES')[2]
  if first then call('ZADD', B .. 'T', first, q.nr) else call('ZREM', B .. 'T', q.nr) end
  M.first_expiry = tonumber(call('ZRANGE', B .. 'T', '0', '0', 'WITHSCORES')[2]) or 0
end

-- forget_expiries takes jobs off the set of those that expire.
local function forget_expiries(q, ids)
  call('ZREM', B .. 'T' .. q.nr, unpack(ids))
  find_first_expiry(q)
end

-- count_ended counts jobs that are about to end. It may raise, so it comes before anything is written.
local function count_ended(q, state, count) add(q, state == S.expired and 'expired' or 'cancelled', count) end

-- end_removed ends jobs that no longer stand in their lane or among the scheduled.
local function end_removed(q, ids, state)
  local F, freeing = B .. 'f' .. q.nr, new_freed()
  for i, entry in ipairs(call('HMGET', F, unpack(ids))) do
    end_unsent_job(q, ids[i], entry and #entry >= SETTLED and unpack_lease(entry), state, freeing)
  end
  call('HDEL', F, unpack(ids))
  give_places_back(q, freeing)
  if q.expiring then forget_expiries(q, ids) end
  remember_ended(q, ids)
  if backlogged(q) then announce_room(q) end
end

-- remove_from_lane takes jobs out of a lane in which they wait.
local function remove_from_lane(q, lane, ids)
  local W = lanes.waiting_key(q, lane)
  call('ZREM', W, unpack(ids))
  lanestate.uncount_waiting(q, lane, #ids)
  if q.laned and call('EXISTS', W) == 0 then lanestate.take_place_away(q, lane) end
  if lane == ZERO then return end
  local bytes = 0
  for _, id in ipairs(ids) do bytes = bytes + bytes_of(id, call('STRLEN', job_key(q.nr, id))) end
  lanestate.count_in_lane(q, lane, -#ids, -bytes)
end

-- unschedule takes out jobs that are scheduled.
local function unschedule(q, ids)
  call('ZREM', B .. 't' .. q.nr, unpack(ids))
  M.scheduled = M.scheduled - #ids
  for _, entry in ipairs(call('HMGET', B .. 'f' .. q.nr, unpack(ids))) do
    if entry and #entry >= SETTLED then lanestate.end_in_lane(q, unpack_lease(entry)) end
  end
end

-- end_unsent ends jobs, in groups: each has ids, and the lane in which they wait, or none if they are scheduled.
-- Returns how many. with_lanes must have been called for the queue.
local function end_unsent(q, found, state)
  local all = {}
  for _, some in ipairs(found) do
    if some.lane then call('ZCARD', lanes.waiting_key(q, some.lane)) end -- looks at its type
    for _, id in ipairs(some.ids) do all[#all + 1] = id end
  end
  local count = #all
  if count == 0 then return 0 end
  count_ended(q, state, count)
  for _, some in ipairs(found) do
    if some.lane then remove_from_lane(q, some.lane, some.ids) elseif some.ids[1] then unschedule(q, some.ids) end
  end
  end_removed(q, all, state)
  lanestate.put_on_agenda_sooner(q)
  return count
end
