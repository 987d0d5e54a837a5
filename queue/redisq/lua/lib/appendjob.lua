-- needs: appendoutcomes, eta, lanestate, overflow, memory, stored
-- gives: decide_job
--
-- What becomes of a job that cannot just be put in at the end of the lane without a key: its id may be taken, the queue
-- may be full, or the job has a lane, a priority, a not-before or rules to ask.

local LOOK_AHEAD = 366 * 86400 * SECOND
local ORDINARY = { flags = 0, expires = math.huge, not_before = 0, lane = ZERO, priority = 0 }

-- count_if_unknown counts who waits, where that matters, if it is not known.
local function count_if_unknown(q, counts)
  if counts.waiting then return end
  for field, value in pairs(count_waiting(q)) do counts[field] = value end
end

-- answer_duplicate answers for an id that is taken.
local function answer_duplicate(q, id, body, counts, old, number, cancelled)
  if sub(old, 17, 24) ~= sub(body, 9, 16) then return CONFLICT end
  local again = sub(old, 9, 16) == sub(body, 1, 8)
  if number then
    if again then
      count_if_unknown(q, counts)
      local rank, before = rank_of_deferred(q, number)
      return SET_ASIDE, number, counts.waiting + rank,
        aside_eta(q, counts, cost_of(old), before, head_of(body, 19).not_before), time_at(old)
    end
    if cancelled then return DUPLICATE, S.cancelled end
    return DEFERRED_BEFORE, renew_deferral(q, id, old, number)
  end
  local code = again and ACCEPTED_BEFORE or DUPLICATE
  if sub(old, 1, 1) == 'E' then return code, (unpack_(ENDED, old, 27)) end
  count_if_unknown(q, counts)
  local entry = call('HGET', B .. 'f' .. q.nr, id)
  local f = entry and unpack_lease(entry)
  local state = f and f.state or S.waiting
  if state ~= S.waiting and (state ~= S.scheduled or not again) then return code, state end
  local position, eta = expected(q, counts, id, old, f)
  return code, state, position, eta, is_exact(q, counts) and 1 or 0
end

local function deferrable(q, body)
  local says = floor(byte(body, 7) / 64)
  if says < 2 then return says == 1 end
  load_overflow(q)
  return q.defers
end

local function set_aside(q, id, body, h, cost, counts)
  count_if_unknown(q, counts)
  local position, eta = counts.waiting + q.deferred + 1, aside_eta(q, counts, cost, q.dcost, h.not_before)
  if eta > h.expires and not is_paused_for_good(q) then return EXPIRED, eta end
  -- This may raise, so it comes before anything is written.
  if counts.aside == 0 then call('ZADD', B .. 'o', 'NX', now, q.name) end
  set(q, 'tickets', q.tickets + 1)
  call('SET', job_key(q.nr, id), 'D' .. pack('>I7', now) .. sub(body, 1, 18) .. pack(DEFERRED, q.tickets, 0), 'PX',
    ceil((q.dage + q.rfor) / 1000))
  count_deferred(q, 1, cost)
  counts.aside = counts.aside + 1
  return SET_ASIDE, q.tickets, position, eta, now
end

-- refuse counts a job that found no room.
local function refuse(counts, code, wait)
  counts.refused = counts.refused + 1
  return code, max(wait, 1000)
end

-- refuse_for_lane answers for a job that finds no room in its lane.
local function refuse_for_lane(q, lane, rule, counts, need)
  local held, bytes = lane_size(q, lane)
  local over = rule.bytes > 0 and bytes + need - rule.bytes or 0
  if over <= 0 and (rule.cap == 0 or held < rule.cap) then return end
  local opens = rule.n > 0 and lane_next(bucket_of(q, lane, rule, now), now)
    or q.receiver and receiver.lane_stop(q, lane)
    or now
  local code, wait = refuse(counts, LANE_FULL, max(opens - now,
    min(jobs_to_leave(over, bytes, held) * counts.lanes * longest_interval(q), YEAR)))
  if over > 0 then return code, wait, bytes, rule.bytes, need end
  return code, wait
end

-- refuse_for_own_bounds answers for a job that a bound of its own refuses, whatever room the queue has.
local function refuse_for_own_bounds(q, h, counts, need)
  local rule = rule_of(q, h.lane)
  if rule.bytes > 0 and need > rule.bytes then return TOO_LARGE, 1, 0, rule.bytes, need end
  if rule.cap > 0 or rule.bytes > 0 then
    local code, wait, held, most, needs = refuse_for_lane(q, h.lane, rule, counts, need)
    if code then return code, wait, held, most, needs end
  end
  local T = B .. 't' .. q.nr
  if h.not_before > now and q.msched > 0 and call('ZCARD', T) >= q.msched then
    return refuse(counts, SCHEDULE_FULL, call('ZRANGE', T, '0', '0', 'WITHSCORES')[2] - now)
  end
end

-- accept lets a job in unless it would depart too late.
local function accept(q, id, live, body, h, cost, counts, need)
  check_keys_for(q, h)
  count_if_unknown(q, counts)
  local W, turn = waiting_key(q, h.lane), q.turn - h.priority * PRIORITY_STEP
  local in_lane = call('ZCARD', W)
  local i = h.priority == 0 and in_lane or call('ZCOUNT', W, '-inf', string.format('(%.0f', turn))
  local eta = lane_eta(q, h, cost, turn - (counts.head or turn), i, counts.lanes - min(in_lane, 1), counts.waiting)
  if h.not_before > now then eta = max(eta, h.not_before) end
  if eta > h.expires and not is_paused_for_good(q) then return EXPIRED, eta end
  local is_exact = h.flags < LANE and is_exact(q, counts)
  call('SET', job_key(q.nr, id), live .. body)
  local state = enter_job(q, id, h, cost, in_lane, need)
  counts.entered = counts.entered + 1
  if state == S.scheduled then return ACCEPTED, state, 0, eta, 0 end
  counts.waiting, counts.lanes = counts.waiting + 1, counts.lanes + (in_lane == 0 and 1 or 0)
  if h.lane == ZERO then counts.head = min(counts.head or turn, turn) end
  return ACCEPTED, state, i + 1, eta, is_exact and 1 or 0
end

-- refuse_by_rules answers for a job that a rule refuses, a rule of another group included, or that cannot be asked.
local function refuse_by_rules(q, id, body, h, cost, counts)
  local says, wait, defers = byte(body, 7), nil, true
  if counts.asks then
    if appendrules.unaskable(counts.asks) then return CANNOT_ASK end
    wait, defers = appendrules.judge(counts.asks, cost)
    appendrules.leave() -- of shadows too, and whatever else the job is refused by
  end
  if not wait and says % 64 < 32 then return end
  if not defers or says < 64 then return refuse(counts, LIMIT_REACHED, wait or 0) end
  load_overflow(q)
  if q.deferred < q.dmax then return set_aside(q, id, body, h, cost, counts) end
  return refuse(counts, OVERFLOW_FULL, retry_after(q))
end

-- charge_if_in charges the rules that allowed a job, if it was accepted or set aside.
local function charge_if_in(counts, cost, code, ...)
  if counts.asks and (code == SET_ASIDE or code == ACCEPTED) then appendrules.charge(cost) end
  return code, ...
end

-- refuse_for_room answers for a job that finds no room in its queue. If it lacks bytes it also returns how many are
-- held, how many may be, and how many the job takes.
local function refuse_for_room(q, counts, need)
  local over = q.bytes + need - byte_limit(q)
  local code, wait = refuse(counts, FULL, retry_after(q, jobs_to_leave(over, q.bytes, q.size)))
  if over > 0 then return code, wait, q.bytes, byte_limit(q), need end
  return code, wait
end

-- kept_for_readmission reports whether a queue with a backlog has only those places, or bytes, left that are for what
-- comes back: up to the mark, and the bytes that the first one there needs.
local function kept_for_readmission(q, need)
  load_overflow(q)
  if q.size - q.back >= max(1, q.cap - q.mark) then return true end
  local others = q.bytes - q.backbytes
  return (others > 0 or q.headneed > 0) and others + need > byte_limit(q) - max(mark_bytes(q), q.headneed)
end

-- decide_job answers for one job.
local function decide_job(q, id, live, body, cost, counts)
  local old, number, cancelled = remembered(q, id)
  if old then return answer_duplicate(q, id, body, counts, old, number, cancelled) end
  if expires_at(body, 19) <= now then return EXPIRED end
  local h, need = ORDINARY, bytes_of(id, #body + 8)
  if need > byte_limit(q) then return TOO_LARGE, 0, 0, byte_limit(q), need end
  if q.laned or byte(body, 19) >= EXPIRES then
    count_if_unknown(q, counts)
    h = head_of(body, 19)
    if h.not_before > now + LOOK_AHEAD then return TOO_FAR end
    local code, wait_for, held, most, needs = refuse_for_own_bounds(q, h, counts, need)
    if code then return code, wait_for, held, most, needs end
  end
  local code, x, position, eta, since = refuse_by_rules(q, id, body, h, cost, counts)
  if code then return code, x, position, eta, since end
  local no_place, behind = q.size >= q.cap or q.bytes + need > byte_limit(q), backlogged(q)
  if (no_place or behind) and deferrable(q, body) then
    load_overflow(q)
    if q.deferred < q.dmax then
      if memory_full() then return STORE_FULL end
      return charge_if_in(counts, cost, set_aside(q, id, body, h, cost, counts))
    end
    return refuse(counts, OVERFLOW_FULL, retry_after(q))
  end
  -- The places of a queue with a backlog, up to the mark, are for what comes back.
  if no_place or behind and kept_for_readmission(q, need) then return refuse_for_room(q, counts, need) end
  if memory_full() then return STORE_FULL end
  return charge_if_in(counts, cost, accept(q, id, live, body, h, cost, counts, need))
end
