-- needs: lanes, leases, agenda
-- gives: count_lane, count_in_lane, take_place_away, needs_no_place, place_lane, put_waiting, uncount_waiting
-- gives: leave_flight, put_back, uncount_in_lane, end_in_lane, can_depart_from, enter_job, put_on_agenda_sooner
--
-- Which lanes are ready, resting or busy, what is counted of each, and the jobs that come and go. A lane in which jobs
-- wait has a place in one of three sets: L (ready), b (resting or busy) or i (to be made ready after a change of
-- rules).

-- count_lane adds to one of the counts of a lane, and drops it when it is 0. Lanes that hold jobs also stand in a
-- sorted set, in whose order they are listed.
local function count_lane(q, suffix, lane, by)
  local key = B .. suffix .. q.nr
  local n = redis.pcall('HINCRBY', key, lane, by)
  if type(n) ~= 'number' or n <= 0 or suffix == 'h' and n % HELD == 0 then
    call('HDEL', key, lane)
    if suffix == 'h' then call('ZREM', B .. 'u' .. q.nr, lane) end
  elseif n == by and suffix == 'h' then
    call('ZADD', B .. 'u' .. q.nr, 0, lane)
  end
end

-- count_in_lane adds to the number of jobs that the queue holds of a lane with a key, and to their bytes.
local function count_in_lane(q, lane, jobs, bytes) count_lane(q, 'h', lane, bytes * HELD + jobs) end

-- cost_under is the cost of the job with an id.
local function cost_under(q, id)
  local cost = redis.pcall('GETRANGE', B .. 'j' .. q.nr .. ':' .. id, 24, 25)
  return type(cost) == 'string' and #cost == 2 and unpack_('>I2', cost) or 1
end

-- make_ready makes a lane ready; its tag needs the cost of its first job, which is read if it is not given. A lane
-- whose key holds something else is tried again later: it must not stop the jobs of others.
local function make_ready(q, lane, cost)
  if not cost then
    local first = redis.pcall('ZRANGE', waiting_key(q, lane), 0, 0)
    if first.err then return call('ZADD', B .. 'b' .. q.nr, now + 2 * SECOND, lane) end
    cost = first[1] and cost_under(q, first[1])
  end
  if cost then call('ZADD', B .. 'L' .. q.nr, q.served + cost, lane) end
end

local function has_place(q, lane)
  for _, place in ipairs({ 'L', 'b', 'i' }) do
    if call('ZSCORE', B .. place .. q.nr, lane) then return true end
  end
  return false
end

local function take_place_away(q, lane)
  for _, place in ipairs({ 'L', 'b', 'i' }) do call('ZREM', B .. place .. q.nr, lane) end
end

-- needs_no_place reports whether jobs leave a lane without its having a place: the lane without a key, unless ordered.
local function needs_no_place(q, lane) return lane == ZERO and not q.ordered end

-- place_lane finds a place for a lane in which a first job has come to wait.
local function place_lane(q, lane, cost)
  if not q.laned or needs_no_place(q, lane) then return end
  if is_busy(q, lane) then call('ZADD', B .. 'b' .. q.nr, 'inf', lane) else make_ready(q, lane, cost) end
end

-- put_waiting puts a job into its lane. If none waited there the caller goes on with place_lane.
local function put_waiting(q, lane, id, turn)
  call('ZADD', waiting_key(q, lane), turn, id)
  M.waiting = M.waiting + 1
  if lane ~= ZERO then set(q, 'lw', q.lw + 1) end
end

-- uncount_waiting takes jobs that no longer wait out of the counts.
local function uncount_waiting(q, lane, number)
  M.waiting = M.waiting - number
  if lane ~= ZERO then set(q, 'lw', max(0, q.lw - number)) end
end

-- release_if_free lets a lane go on that was busy with jobs in flight and no longer is.
local function release_if_free(q, lane)
  if needs_no_place(q, lane) or call('ZSCORE', B .. 'b' .. q.nr, lane) ~= 'inf' or is_busy(q, lane) then return end
  local at = rests_until(q, lane, rule_of(q, lane), now)
  if at > now then
    call('ZADD', B .. 'b' .. q.nr, at, lane)
  else
    call('ZREM', B .. 'b' .. q.nr, lane)
    make_ready(q, lane)
  end
end

-- leave_flight counts a job of a lane that is no longer in flight.
local function leave_flight(q, lane)
  count_lane(q, 'k', lane, -1)
  release_if_free(q, lane)
end

-- put_back puts a job back into its lane that was in flight or scheduled; f is its lease record.
local function put_back(q, id, f)
  put_waiting(q, f.lane, id, f.turn)
  if f.counted then count_lane(q, 'k', f.lane, -1) end
  if call('ZCARD', waiting_key(q, f.lane)) == 1 then place_lane(q, f.lane) elseif f.counted then
    release_if_free(q, f.lane)
  end
  f.counted = false
end

-- uncount_in_lane takes a job that the queue no longer holds out of the counts of its lane.
local function uncount_in_lane(q, f)
  if f.lane ~= ZERO then count_in_lane(q, f.lane, -1, -f.bytes) end
end

-- end_in_lane does both for a job that ends; f is its lease record.
local function end_in_lane(q, f)
  uncount_in_lane(q, f)
  if f.counted then leave_flight(q, f.lane) end
end

-- can_depart_from returns from when on the lanes of a queue let a job out, its pace allowing: -inf for now, an instant
-- if all of them rest until then, nil if nothing waits, or if a job in flight must end first.
local function can_depart_from(q)
  load_lanes(q)
  local plain = call('ZCARD', B .. 'w' .. q.nr)
  local waiting = plain + q.lw
  if waiting == 0 or q.mif > 0 and q.size - waiting - call('ZCARD', B .. 't' .. q.nr) - call('ZCARD',
    B .. 'K' .. q.nr) >= q.mif then
    return nil
  end
  if plain > 0 and not (q.ordered and call('ZSCORE', B .. 'b' .. q.nr, ZERO)) then return -math.huge end
  if q.again or call('ZCARD', B .. 'L' .. q.nr) > 0 or call('ZCARD', B .. 'i' .. q.nr) > 0 then return -math.huge end
  local first = call('ZRANGE', B .. 'b' .. q.nr, '0', '0', 'WITHSCORES')[2]
  return first and first ~= 'inf' and tonumber(first) or nil
end

-- enter_job puts a new job in, to wait or be scheduled, and returns its state. before is how many wait in its lane,
-- bytes what it takes of max_bytes.
local function enter_job(q, id, h, cost, before, bytes)
  load_lanes(q)
  if h.flags >= LANE then
    q.laned = '1'
    if not q.mixed then
      set(q, 'laned', '1')
      set(q, 'mixed', '1')
    end
  end
  local turn = q.turn - h.priority * PRIORITY_STEP
  set(q, 'turn', q.turn + cost)
  set(q, 'size', q.size + 1)
  set(q, 'bytes', q.bytes + bytes)
  if cost > q.cmax then set(q, 'cmax', cost) end
  if q.group and cost > q.group.gcmax then set(q.group, 'gcmax', cost) end
  if h.lane ~= ZERO then count_in_lane(q, h.lane, 1, bytes) end
  if h.expires < math.huge then note_expiries(q, { h.expires, id }, h.expires) end
  if h.not_before > now then
    call('HSET', B .. 'f' .. q.nr, id, pack_lease({ state = S.scheduled, attempts = 0, turn = turn, at = h.not_before,
      epoch = NOBODY, fence = 0, bytes = bytes,
      pepoch = NOBODY, pfence = 0, pverdict = 0, lane = h.lane, reason = '' }))
    call('ZADD', B .. 't' .. q.nr, h.not_before, id)
    M.scheduled = M.scheduled + 1
    return S.scheduled
  end
  put_waiting(q, h.lane, id, turn)
  if before == 0 then
    place_lane(q, h.lane, cost)
  elseif h.lane ~= ZERO and not has_place(q, h.lane) then
    place_lane(q, h.lane) -- what put it out of its place is mended; a visit places the one without a key
  end
  return S.waiting
end

-- put_on_agenda_sooner is put_on_agenda after something by which a job may depart sooner than the agenda says. If so,
-- the watcher is told.
local function put_on_agenda_sooner(q)
  local a, s = tonumber(call('ZSCORE', agenda_key(q, 'a'), q.group and q.group.nr or q.nr)),
    tonumber(call('ZSCORE', agenda_key(q, 's'), q.nr))
  local e = put_on_agenda(q, 'LT')
  if e and e < min(a or e + 1, s or e + 1) then wake_for(e, q) end
end
