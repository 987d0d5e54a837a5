#!lua flags=allow-oom
-- needs: settlecodes, held, ended, agenda, departures, stored
-- for backlog: backlog
-- reads: delivered, outflowStart, outflowCur, outflowPrev, endedLookAt
-- for lanes: lanestate
-- for limits: groups, learned
-- for receiver: receiver
-- for adapt: adapt
-- for outcome: outcome
--
-- End leases, grouped by queue.
--
-- ARGV[2]  number of queues; for each: name, number of settlements; for each: id, fence (8 bytes of epoch, 6 of
--          number), verdict and its marks (LANE_ONLY, TROUBLE, UNTOLD or unused; NO_TARGET), after in us, reason.
--          Behind them, for each settlement with a budget of the receiver: numbers of the queue and of its settlement,
--          what remains, time until it is renewed in us; and for each actual cost: these numbers, the unit, the cost
-- Returns  one entry a settlement: the state in which it left the job, 0 if stale, the text of an error; {unit} if no
--          limit has this unit; or, if it changed the queue, {state, stopped for in us, 1 if the circuit opened, 1 if
--          it closed, n and d of the adapted rate before and after, if that changed}

begin()
local out, arg = {}, 3

local NONE = {}
local LONGEST = 2 ^ 40 - 1 -- microseconds from departure to delivery that a record can hold
-- What is kept of a delivered job (see job.lua), in one step: 'E' and the instant, its stamp to its cost, then ENDED
-- without a reason, the fence as it came, then how long the delivery took and the number of the client.
local DELIVERED = '>c8c18BBI2c14c7I2I5c2'

-- updateReceiver notes what an answer says about the receiver. The job left at departed; f is its lease record, nil
-- if its lane does not matter. It returns the answer to the settlement.
local function updateReceiver(q, f, id, departed, code, after, reason, state)
  local verdict = code % LANE_ONLY
  local trouble = verdict == V.down or (verdict == V.retry or verdict == V.held) and code >= TROUBLE
  local untold = verdict == V.throttled and code >= UNTOLD
  local throttles = untold or (verdict == V.throttled or verdict == V.delivered) and after > 0
  if verdict == V.released or verdict == V.held and not trouble or not (q.receiver or trouble or throttles) then
    return state
  end
  withReceiver(q)
  local stopped, opened, closed = 0, 0, 0
  if trouble then stopped, opened = receiver.fail(q, reason) else closed = receiver.succeed(q) end
  if not trouble and verdict ~= V.throttled then receiver.accept(q, departed) end
  if code == NO_TARGET then
    stopped = receiver.stopFor(q, after, reason, true)
  elseif throttles and f and code % TROUBLE >= LANE_ONLY and f.lane ~= ZERO then
    stopped = receiver.stopLane(q, f.lane, lanes.ruleOf(q, f.lane), after)
  elseif untold then
    stopped = receiver.throttle(q, id, departed, after, reason)
  elseif throttles then
    stopped = receiver.stopFor(q, after, reason)
  end
  if stopped + opened + closed == 0 then return state end
  return { state, stopped, opened, closed }
end

local adapting = {} -- arguments of adaptToAnswers
local laterEnds -- ended leases of all queues of the call but the first

-- checkSettle checks the keys that the settlements of a queue write. It returns their ids, and whether all jobs were
-- delivered and nothing else changes.
local function checkSettle(q, name, count, arg, actuals)
  local ids, mayDie, mayHold = {}, false, false
  local plain = not (q.laned or q.group or q.receiver or q.adapt or next(actuals))
  for j = 1, count do
    local verdict = ARGV[arg + 2] % LANE_ONLY
    ids[j], mayDie, mayHold = ARGV[arg], mayDie or verdict == V.retry or verdict == V.dead, mayHold or verdict == V.held
    plain = plain and verdict == V.delivered and ARGV[arg + 3] == '0'
    arg = arg + 5
  end
  -- A plain call reads the keys that it writes, except for the leases and the list of ended jobs. It writes the leases
  -- first, and the records of the jobs behind them.
  if plain and q.epoch == M.run then call('LLEN', B .. 'e' .. q.nr) else checkKeys(q) end
  if mayDie then checkDeadKeys(name) end
  if mayHold then call('ZCARD', heldKey(q)) end
  return ids, plain
end

-- writeSettled writes what the settlements have changed of a queue, besides its jobs. records are those of delivered
-- jobs that are still to be written, by key; they are kept for px milliseconds.
local function writeSettled(s, name, records, px)
  local q, ends = s.q, s.ends
  if laterEnds then
    for _, lease in ipairs(ends) do laterEnds[#laterEnds + 1] = lease end
  else
    call('ZREM', B .. 'l', unpack(ends)) -- raises if the key is another program's
    laterEnds = {}
  end
  for key, record in pairs(records) do call('PSETEX', key, px, record) end
  if #s.gone > 0 then call('HDEL', B .. 'f' .. q.nr, unpack(s.gone)) end
  local delivered = #s.delivered
  rememberEnded(q, s.delivered)
  if s.unstarted > 0 then countDepartures(q, -s.unstarted) end
  if #s.gone > 0 then givePlacesBack(q, s.freeing) end
  add(q, 'delivered', delivered)
  rememberDead(q, s.dead)
  add(q, 'retried', s.retried)
  add(q, 'released', s.released)
  add(q, 'throttled', s.throttled)
  add(q, 'down', s.down)
  M.leased, M.scheduled = M.leased - #ends, M.scheduled + s.scheduled
  if s.returning or q.stop ~= s.stop then
    -- If a stop began or ended, the time before it is no lost slot.
    local e = putOnAgenda(q, q.stop == s.stop and 'LT' or nil)
    if e then wakeFor(e, q) end
  elseif q.laned then
    lanestate.putOnAgendaSooner(q)
  end
  if hasBacklog(q) then announceRoom(q) end
  if learned then learned.writeLearned() end
  if s.signals[1] then
    heldByRate(q) -- as the call found it
    adapting[#adapting + 1] = { name = name, out = s.out, signals = s.signals, cameBack = s.cameBack }
  end
  save(q)
end

-- settleQueue settles jobs of a queue, and returns an answer each; nil if there is no such queue. budgets has those
-- of its receiver, by settlement, and actuals the actual costs.
local function settleQueue(name, nr, count, arg, budgets, actuals)
  local q = nr and load(nr)
  if not q then return nil end
  local ids, plain = checkSettle(q, name, count, arg, actuals)
  local out, ends, well, gone, flights, freeing, signals = {}, {}, {}, {}, {}, newFreed(), {}
  local s = { q = q, out = out, ends = ends, delivered = well, gone = gone, flights = flights, freeing = freeing,
    signals = signals, dead = {}, stop = q.stop, cameBack = 0, unstarted = 0, released = 0, retried = 0, throttled = 0,
    down = 0, scheduled = 0, returning = false }
  local learning = q.adapt and string.find(cmsgpack.unpack(q.adapt)[1], '^learn ') ~= nil
  local J, ended = B .. 'j' .. nr .. ':', 'E' .. pack('>I7', now)
  -- Redis would format a number anew for each job, so px is a text, as '0' and '25' are.
  local px = string.format('%d', ceil(q.retentionFor / 1000))
  local records, tokens = {}, {} -- of plain calls: records to write, by key; tokens of delivered jobs, by id
  local entries = call('HMGET', B .. 'f' .. nr, unpack(ids))
  for j = 1, count do
    local id, token, code, after, reason =
      ARGV[arg], ARGV[arg + 1], ARGV[arg + 2] + 0, ARGV[arg + 3] + 0, ARGV[arg + 4]
    arg = arg + 5
    local entry = flights[id] or entries[j] -- a call may settle the same job twice
    local marks = entry and byte(entry)
    local actual, bill, uncounted = actuals[j], nil, nil
    if actual then
      local verdict = code % LANE_ONLY
      local back = verdict == V.released or verdict == V.down and code >= UNTOLD or code == NO_TARGET
      local failed = verdict == V.down or verdict == V.retry and code >= TROUBLE
      uncounted = actual[1].unit
      if q.links then bill, uncounted = limits.billToCorrect(q, id, entry, actual, back, failed) end
    end
    local key = marks and code % LANE_ONLY == V.delivered and marks % KEYED == S.leased and sub(entry, 18, 31) == token
      and J .. id
    local head = key and redis.pcall('GETRANGE', key, '0', '26')
    if uncounted then
      out[j] = { uncounted }
    elseif type(head) == 'table' then
      out[j] = errorText(head) -- for this job only: its lease will run out
    elseif head then
      -- Most jobs are delivered. Their records are made without unpacking the lease record.
      local kind, bytes = sub(head, 1, 1), unpackStruct('>I4', entry, CLIENT + 2)
      local attempts, _, departed = unpackStruct('>I2I7I7', entry, 2)
      freeing.count, freeing.bytes = freeing.count + 1, freeing.bytes + bytes
      if kind == 'R' then freeing.back, freeing.backBytes = freeing.back + 1, freeing.backBytes + bytes end
      if LIVE[kind] and #head > 25 then
        if (byte(head, 27) or 0) % COSTS >= BATCHED then
          withBatches(q)
          batches.countInBatch(q, id, key, S.delivered)
        end
        local record = pack(DELIVERED, ended, sub(head, 9, 26), S.delivered, V.delivered, attempts + 1, token,
          sub(head, 2, 8), 0, max(0, min(now - departed, LONGEST)), sub(entry, CLIENT, CLIENT + 1))
        if plain then records[key], tokens[id] = record, token else call('PSETEX', key, px, record) end
      end
      ends[#ends + 1], well[#well + 1], gone[#gone + 1], flights[id] = nr .. ':' .. id, id, id, ''
      out[j] = (q.receiver or after > 0) and updateReceiver(q, nil, id, departed, code, after, reason, S.delivered)
        or S.delivered
      if q.adapt and (after <= 0 or learning) then
        signals[#signals + 1] = { index = j, departed = departed, learns = learning, budget = budgets[j] }
      end
      if bill then limits.correctCharges(s, departed, bill, actual, sub(token, 1, 8) == M.run) end
      if marks >= KEYED then lanestate.endInLane(q, unpackLease(entry)) end
    elseif tokens[id] then
      out[j] = tokens[id] == token and S.delivered or 0
    else
      s.bill, s.actual = bill, actual
      local answer, f, left = settleOne(s, id, entry, token, code, after, reason)
      out[j] = f and updateReceiver(q, f, id, left, code, after, reason, answer) or answer
      if f and learning and code % LANE_ONLY ~= V.released then
        signals[#signals + 1] = { index = j, departed = left, learns = true, budget = budgets[j] }
      elseif f and q.adapt and code % LANE_ONLY == V.throttled and code ~= NO_TARGET
        and (code % TROUBLE < LANE_ONLY or f.lane == ZERO) then
        signals[#signals + 1] = { index = j, throttled = true, departed = left, reason = reason }
      end
    end
  end
  if ends[1] then writeSettled(s, name, records, px) end
  return out
end

local settled, names, counts = {}, {}, {}
for i = 1, ARGV[2] + 0 do
  names[i], counts[i] = ARGV[arg], ARGV[arg + 1] + 0
  arg = arg + 2 + 5 * counts[i]
end
local stated, used = {}, {}
for i = arg, #ARGV, 4 do
  local of, at, unit = ARGV[i] + 0, ARGV[i + 1] + 0, string.find(ARGV[i + 2], '^%l') and ARGV[i + 2]
  stated[of], used[of] = stated[of] or {}, used[of] or {}
  if unit then
    used[of][at] = used[of][at] or {}
    table.insert(used[of][at], { unit = unit, cost = ARGV[i + 3] + 0 })
  else
    stated[of][at] = { remaining = ARGV[i + 2] + 0, reset = ARGV[i + 3] + 0 }
  end
end
arg = 3
for i, nr in ipairs(call('HMGET', B .. 'n', unpack(names))) do
  local ok, answer = pcall(settleQueue, names[i], nr, counts[i], arg + 2, stated[i] or NONE, used[i] or NONE)
  settled[i] = { count = counts[i], ok = ok, answer = answer }
  arg = arg + 2 + 5 * counts[i]
end
if laterEnds and laterEnds[1] then call('ZREM', B .. 'l', unpack(laterEnds)) end
for _, a in ipairs(adapting) do
  local ok, e = pcall(adaptRate, a)
  for _, signal in ipairs(not ok and a.signals or {}) do a.out[signal.index] = errorText(e) end
end
for _, s in ipairs(settled) do
  for j = 1, s.count do out[#out + 1] = not s.ok and errorText(s.answer) or s.answer and s.answer[j] or 0 end
end
finish()
return out
