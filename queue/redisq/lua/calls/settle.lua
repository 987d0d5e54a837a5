#!lua flags=allow-oom
-- needs: held, ended, agenda, departures, stored
-- for backlog: backlog
-- reads: delivered, mw, mc, mp, ended_look
-- for lanes: lanestate
-- for limits: groups
-- for receiver: receiver
-- for adapt: adapt
--
-- End leases, grouped by queue.
--
-- ARGV[2]  number of queues; for each: name, number of settlements; for each: id, fence (8 bytes of epoch, 6 of
--          number), verdict (+ 16 of the lane only, + 32 with trouble, + 64 untold, or unused; throttled + 32 where
--          there is no target), after in us, reason
-- Returns  one entry a settlement: the state in which it left the job, 0 when stale, the text of an error, or, when it
--          did something to the queue besides, {state, stopped for in us, 1 if the circuit opened, 1 if it closed, n
--          and d of the adapted rate before and after, if that changed}

begin()
local out, arg = {}, 3

local LONGEST = 2 ^ 40 - 1 -- microseconds from departure to delivery, as kept of it
-- What is kept of a job that was delivered (see job.lua), in one step: 'E' and when, its stamp to its cost, then ENDED
-- without a reason, its fence as it came, then how long it took and whose it was.
local WELL = '>c8c18BBI2c14c7I2I5c2'
local AFTER = { [V.delivered] = S.delivered, [V.dead] = S.dead, [V.released] = S.waiting, [V.held] = S.held,
  [V.throttled] = S.waiting, [V.down] = S.waiting }
local LANE_ONLY, TROUBLE, UNTOLD = 16, 32, 64
local NO_TARGET = V.throttled + TROUBLE

-- answerRepeated answers a settlement whose lease is gone: as before, if it repeats the last one that was accepted;
-- else it is stale.
local function answerRepeated(q, id, f, epoch, fence, verdict)
  if f then
    if f.pepoch == epoch and f.pfence == fence and f.pverdict == verdict then return AFTER[verdict] or S.scheduled end
    return 0
  end
  local job = redis.pcall('GET', jobKey(q.nr, id))
  if type(job) == 'string' and sub(job, 1, 1) == 'E' then
    local e = unpackEnded(job)
    if e.ended + q.rfor > now and e.epoch == epoch and e.fence == fence and e.verdict % DECIDED == verdict then
      -- A job that was cancelled, that expired or that a person decided on ended later, not by its last settlement.
      if e.verdict < DECIDED and (e.state == S.delivered or e.state == S.dead) then return e.state end
      return AFTER[verdict] or S.scheduled
    end
  end
  return 0
end

-- laneError returns what is wrong with the key of the lane into which a job is to come back, if anything is.
local function laneError(q, f)
  local size = f.lane ~= ZERO and redis.pcall('ZCARD', lanes.waitingKey(q, f.lane))
  return type(size) == 'table' and errorText(size)
end

-- giveBackDeparture gives a departure back that was not used, if it was the last one granted.
local function giveBackDeparture(q, epoch, fence)
  if q.lf ~= fence or q.lc == 0 or epoch ~= M.run or q.epoch ~= M.run then return end
  if q.adapt then heldByRate(q) end -- as the call found it
  giveBack(q)
  saveBucket(q)
  set(q, 'lf', 0)
end

-- updateReceiver takes what an answer says of the receiver, to a job that departed then; f is its lease record, or nil
-- where that does not matter. Returns the answer to the settlement.
local function updateReceiver(q, f, id, departed, verdict, code, after, reason, state)
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

-- refund gives the departure back to quotas, and to the time that the group could have used.
local function refundQuotas(q, id, f)
  local cost = redis.pcall('GETRANGE', jobKey(q.nr, id), 24, 25)
  cost = type(cost) == 'string' and #cost == 2 and unpack_('>I2', cost) or 1
  local g = q.group
  if g then groups.noteGivenBack(g) end
  limits.refund(q, f.at, cost)
  if g and g ~= q then limits.refund(g, f.at, cost) end
end

-- giveBackUnstarted gives back what a job took that was released or did not start: its quotas and its departure.
-- Where the circuit is off it does not, because nothing else bounds how often the target is tried. A probe is given
-- back to quotas in any case. Reports whether the job did not start.
local function giveBackUnstarted(q, id, f, verdict, code, epoch, fence)
  local unstarted = verdict == V.released or verdict == V.down and code >= UNTOLD or code == NO_TARGET
  local all = unstarted and (verdict ~= V.down or (call('HGET', B .. 'q' .. q.nr, 'circuit') or '') ~= '')
  local probe = verdict ~= V.released and q.receiver and q.receiver.opened > 0 and f.at >= q.receiver.opened
  if (all or probe) and (q.limits or q.group) then refundQuotas(q, id, f) end
  if all then
    giveBackDeparture(q, epoch, fence)
    if q.group and q.group ~= q then giveBackDeparture(q.group, epoch, fence) end
  end
  return unstarted
end

-- tooOld reports whether a job would be too old to be tried again at an instant, by the retry deadline.
local function tooOld(q, id, at)
  q.patience = q.patience or tonumber(call('HGET', B .. 'q' .. q.nr, 'retry.deadline')) or 0
  if q.patience == 0 then return false end
  local job = redis.pcall('GETRANGE', jobKey(q.nr, id), 0, 7)
  return type(job) == 'string' and #job == 8 and at > timeAt(job) + q.patience
end

-- adaptToAnswers takes what the answers of a call say of a queue's rate: a has its name, the answers so far, how many
-- jobs came back, and signals: of a settlement its place, whether it was throttled, when the job departed, and the
-- reason. It comes behind all queues of the call, when all that was never used has been given back: a bucket that goes
-- over to another rate is rounded, so the order matters, and both engines keep to it.
local function adaptToAnswers(a)
  local q, another = load(numberOf(a.name)), false
  for _, signal in ipairs(a.signals) do
    local at, throttled, departed, reason = unpack(signal)
    local rates = adaptRate(q, throttled, departed, reason, a.came)
    if rates then
      if type(a.out[at]) ~= 'table' then a.out[at] = { a.out[at], 0, 0, 0 } end
      for _, number in ipairs(rates) do table.insert(a.out[at], number) end
      another = true
    end
  end
  if another then -- the time until now is no lost slot
    if q.group == q then set(q, 'gsince', now) end
    local e = putOnAgenda(q)
    if e then wakeFor(e, q) end
  end
  save(q)
end

local adapting = {} -- for adaptToAnswers
local over -- leases that the call ended, but those of its first queue

local function settle(name, nr, count, arg)
  local q = nr and load(nr)
  if not q then return nil end
  local out = {}
  local T, F = B .. 't' .. q.nr, B .. 'f' .. q.nr
  local gone, ends, well, dead, returning, freeing = {}, {}, {}, {}, false, newFreed()
  local ids, released, retried, throttled, down, scheduled, unstarted, flights = {}, 0, 0, 0, 0, 0, 0, {}
  local stop, came, signals = q.stop, 0, {}
  -- Redis would write a number out anew for each job, so px is a text, as '0' and '25' are.
  local J, ended, px = B .. 'j' .. q.nr .. ':', 'E' .. pack('>I7', now), string.format('%d', ceil(q.rfor / 1000))
  local may_die, may_hold, plain = false, false, not (q.laned or q.group or q.receiver or q.adapt)
  for j = 0, count - 1 do
    local verdict = ARGV[arg + 5 * j + 2] % LANE_ONLY
    ids[j + 1], may_die = ARGV[arg + 5 * j], may_die or verdict == V.retry or verdict == V.dead
    may_hold = may_hold or verdict == V.held
    plain = plain and verdict == V.delivered and ARGV[arg + 5 * j + 3] == '0'
  end
  -- Where all is delivered and changes nothing else, what is written is read below, but for the list of the ended and
  -- the leases: these go first, and what is kept of the jobs is written behind them.
  local kept, delivered = {}, {} -- by key; by id, with the token
  if plain and q.epoch == M.run then call('LLEN', B .. 'e' .. nr) else checkKeys(q) end
  if may_die then checkDeadKeys(name) end
  if may_hold then call('ZCARD', heldKey(q)) end
  local entries = call('HMGET', F, unpack(ids))
  for j = 1, count do
    local id, token, code, after, reason =
      ARGV[arg], ARGV[arg + 1], ARGV[arg + 2] + 0, ARGV[arg + 3] + 0, ARGV[arg + 4]
    local verdict = code % LANE_ONLY
    arg = arg + 5
    local entry = flights[id] or entries[j] -- the same job may be settled twice in one call
    local marks = entry and byte(entry)
    local key = marks and verdict == V.delivered and marks % KEYED == S.leased and sub(entry, 18, 31) == token
      and J .. id
    local quick, epoch, fence, f = key and redis.pcall('GETRANGE', key, '0', '25'), nil, nil, nil
    if not quick then
      epoch, fence = unpack_('>c8I6', token)
      f = entry and entry ~= '' and unpackLease(entry)
    end
    if type(quick) == 'table' then
      out[#out + 1] = errorText(quick) -- this job alone: its lease will run out
    elseif quick then
      -- Most jobs go well: what is kept of one is put together without unpacking its lease record.
      local kind = sub(quick, 1, 1)
      local bytes = unpack_('>I4', entry, CLIENT + 2)
      freeing.count, freeing.bytes = freeing.count + 1, freeing.bytes + bytes
      if kind == 'R' then freeing.back, freeing.back_bytes = freeing.back + 1, freeing.back_bytes + bytes end
      if LIVE[kind] and #quick == 26 then
        local attempts, _, departed = unpack_('>I2I7I7', entry, 2)
        local record = pack(WELL, ended, sub(quick, 9, 26), S.delivered, V.delivered, attempts + 1, token,
          sub(quick, 2, 8), 0, max(0, min(now - departed, LONGEST)), sub(entry, CLIENT, CLIENT + 1))
        if plain then kept[key], delivered[id] = record, token else call('PSETEX', key, px, record) end
      end
      ends[#ends + 1] = q.nr .. ':' .. id
      well[#well + 1] = id
      gone[#gone + 1] = id
      flights[id] = ''
      out[#out + 1] = (q.receiver or after > 0) and updateReceiver(q, nil, id, unpack_('>I7', entry, 11), verdict,
        code, after,
        reason, S.delivered) or S.delivered
      if q.adapt and after <= 0 then
        signals[#signals + 1] = { #out, false, unpack_('>I7', entry, 11), '' }
      end
      if marks >= KEYED then lanestate.endInLane(q, unpackLease(entry)) end
    elseif delivered[id] then
      out[#out + 1] = delivered[id] == token and S.delivered or 0
    elseif not f or f.state ~= S.leased or f.epoch ~= epoch or f.fence ~= fence then
      out[#out + 1] = answerRepeated(q, id, f, epoch, fence, verdict)
    elseif AFTER[verdict] == S.waiting and laneError(q, f) then
      out[#out + 1] = laneError(q, f) -- this job alone
    else
      ends[#ends + 1] = q.nr .. ':' .. id
      local departed = f.at
      if verdict == V.retry or verdict == V.dead or verdict == V.held then
        f.reason = reason
        noteFailure(q, id, reason)
      end
      -- What the receiver did not look at, or was too busy for, costs no attempt.
      local spared = verdict == V.throttled and ATTEMPT_THROTTLED or verdict == V.down and ATTEMPT_DOWN
      if verdict == V.retry and code >= TROUBLE and q.receiver and q.receiver.opened > 0 then spared = ATTEMPT_DOWN end
      if verdict ~= V.released and not spared then f.attempts = f.attempts + 1 end
      local state = AFTER[verdict]
      if verdict == V.retry then
        state = not spared and (f.attempts >= q.maxatt or tooOld(q, id, now + after)) and S.dead or S.scheduled
      end
      if verdict ~= V.released then
        addAttempt(f, spared or state == S.dead and ATTEMPT_DEAD or state == S.held and ATTEMPT_UNKNOWN
          or ATTEMPT_RETRY, reason)
      end
      if spared == ATTEMPT_THROTTLED then throttled = throttled + 1 elseif spared then down = down + 1 end
      f.pepoch, f.pfence, f.pverdict, f.state = epoch, fence, verdict, state
      if state == S.dead then
        endJob(q, id, f, state, verdict, freeing)
        dead[#dead + 1] = id
        gone[#gone + 1] = id
        flights[id] = ''
        if q.laned then lanestate.endInLane(q, f) end
      else
        if state == S.waiting then
          waitAgain(q, id, f)
          if (verdict ~= V.throttled or code == NO_TARGET)
            and giveBackUnstarted(q, id, f, verdict, code, epoch, fence) then
            unstarted = unstarted + 1
          end
          if verdict == V.released then released = released + 1 end
          came = came + 1
        elseif state == S.held then
          putHeld(q, id, f)
        else
          if spared then giveBackUnstarted(q, id, f, verdict, code, epoch, fence) end
          f.at = wall + after
          call('ZADD', T, f.at, id)
          -- In an ordered queue it still blocks its lane.
          if f.counted and not q.ordered then
            lanestate.leaveFlight(q, f.lane)
            f.counted = false
          end
          scheduled = scheduled + 1
          if not spared then retried = retried + 1 end
        end
        if state ~= S.held then
          trackDeadline(q, id)
          returning = true
        end
        flights[id] = packLease(f)
        call('HSET', F, id, flights[id])
      end
      out[#out + 1] = updateReceiver(q, f, id, departed, verdict, code, after, reason, state)
      if q.adapt and verdict == V.throttled and code ~= NO_TARGET
        and (code % TROUBLE < LANE_ONLY or f.lane == ZERO) then
        signals[#signals + 1] = { #out, true, departed, reason }
      end
    end
  end
  if #ends == 0 then return out end
  if over then
    for _, lease in ipairs(ends) do over[#over + 1] = lease end
  else
    call('ZREM', B .. 'l', unpack(ends)) -- raises if the key is another program's
    over = {}
  end
  for key, record in pairs(kept) do call('PSETEX', key, px, record) end
  if #gone > 0 then call('HDEL', F, unpack(gone)) end
  rememberEnded(q, well)
  if unstarted > 0 then countDepartures(q, -unstarted) end
  if #gone > 0 then givePlacesBack(q, freeing) end
  add(q, 'delivered', #well)
  rememberDead(q, dead)
  add(q, 'retried', retried)
  add(q, 'released', released)
  add(q, 'throttled', throttled)
  add(q, 'down', down)
  M.leased, M.scheduled = M.leased - #ends, M.scheduled + scheduled
  if returning or q.stop ~= stop then
    -- Time that another stop has put off or let go on is no lost slot.
    local e = putOnAgenda(q, q.stop == stop and 'LT' or nil)
    if e then wakeFor(e, q) end
  elseif q.laned then
    lanestate.putOnAgendaSooner(q)
  end
  if hasBacklog(q) then announceRoom(q) end
  if signals[1] then
    heldByRate(q) -- as the call found it
    adapting[#adapting + 1] = { name = name, out = out, signals = signals, came = came }
  end
  save(q)
  return out
end

local settled, names, counts = {}, {}, {}
for i = 1, ARGV[2] + 0 do
  names[i], counts[i] = ARGV[arg], ARGV[arg + 1] + 0
  arg = arg + 2 + 5 * counts[i]
end
arg = 3
for i, nr in ipairs(call('HMGET', B .. 'n', unpack(names))) do
  local ok, answer = pcall(settle, names[i], nr, counts[i], arg + 2)
  settled[i] = { counts[i], ok, answer }
  arg = arg + 2 + 5 * counts[i]
end
if over and over[1] then call('ZREM', B .. 'l', unpack(over)) end
for _, a in ipairs(adapting) do
  local ok, e = pcall(adaptToAnswers, a)
  for _, signal in ipairs(not ok and a.signals or {}) do a.out[signal[1]] = errorText(e) end
end
for _, s in ipairs(settled) do
  local count, ok, answer = unpack(s)
  for j = 1, count do out[#out + 1] = not ok and errorText(answer) or answer and answer[j] or 0 end
end
finish()
return out
