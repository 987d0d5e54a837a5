-- needs: departures, pacechange, agenda
-- gives: adaptToAnswers
--
-- A rate that follows what the receiver accepts, by the arithmetic of leaky/adapt.go.
--
-- Or it follows the budget that the receiver states. Then the rule is "learn", n and d of the initial rate, and the
-- setting; changed is when the budget is renewed, and lowered when the job departed whose answer stated it.
--
-- The field adapt of such a queue has the rule, then level, peak, run, changed and lowered. Otherwise the rule is a
-- text of ten numbers: n and d of the floor and of the ceiling, the unit of levels, the levels of the two, and n, d and
-- level of the initial rate. The field rateChanges has the changes, latest first: {when, n and d before, n and d after,
-- cause, reason}.

local PAUSE, REGAIN, NEAR, STAY, BEYOND, MOST_RUN, AGAIN, DIGITS = SECOND, 4, 32, 18, 1500, 100, 5, 100000
local MOST_RATE_CHANGES = 20
local SAME_RATE, MOST_RESET, MOST_REMAINING = 1 / 16, 86400 * SECOND, 1000000000
local USED_UP = "the receiver's budget is used up"
-- In an entry of rateChanges.
local RATE_CHANGE_FROM_N, RATE_CHANGE_FROM_D, RATE_CHANGE_TO_N, RATE_CHANGE_TO_D, RATE_CHANGE_CAUSE = 2, 3, 4, 5, 6

local function numbersOf(rule)
  local list = {}
  for number in string.gmatch(rule, '%d+') do list[#list + 1] = tonumber(number) end
  return list
end

-- adapted unpacks the state of a queue.
local function adapted(q)
  local rule, level, peak, run, changed, lowered = unpack(cmsgpack.unpack(q.adapt), 1, 6)
  local floorN, floorD, ceilingN, ceilingD, unit, floorLevel, ceilingLevel = unpack(numbersOf(rule), 1, 7)
  return { rule = rule, level = level, peak = peak, run = run, changed = changed, lowered = lowered, unit = unit,
    floor = { n = floorN, d = floorD, level = floorLevel },
    ceiling = { n = ceilingN, d = ceilingD, level = ceilingLevel } }
end

local function encodeAdapted(s) return cmsgpack.pack({ s.rule, s.level, s.peak, s.run, s.changed, s.lowered }) end

-- beginAdapted returns the packed initial state under a rule.
local function beginAdapted(rule)
  local level = numbersOf(rule)[10] or 0
  return cmsgpack.pack({ rule, level, level, STAY, 0, 0 })
end

local function ratio(n, d)
  local a, b = n, d
  while b ~= 0 do a, b = b, a % b end
  return n / a, d / a
end

-- rateOf brings the level within its bounds, and returns n and d of the rate at that level.
local function rateOf(s)
  s.level = min(max(s.level, s.floor.level), s.ceiling.level)
  local scale = 1
  while floor(s.level / scale) >= DIGITS do scale = scale * 10 end
  local level = s.level - s.level % scale
  if s.level == s.ceiling.level then return s.ceiling.n, s.ceiling.d end
  if level <= s.floor.level then return s.floor.n, s.floor.d end
  return ratio(level, s.unit)
end

-- refused updates the state after a throttled departure, taken after a departure that was delivered while the rate
-- delayed other jobs. Both report whether the state changed.
local function refused(s, departed)
  if departed <= s.lowered then return false end
  s.peak = s.level
  s.level = s.run < AGAIN and floor(s.level / 2) or floor(s.level * 3 / 4)
  s.run, s.changed, s.lowered = 0, now, now + HORIZON
  return true
end

local function taken(q, s, departed)
  if departed <= s.lowered or now < s.changed + PAUSE or q.n == s.ceiling.n and q.d == s.ceiling.d then
    return false
  end
  s.run, s.changed = min(s.run + 1, MOST_RUN), now
  local beyond = s.run - STAY
  if beyond > 0 then
    s.level = s.level + max(1, floor(s.peak * beyond / BEYOND) * beyond)
  else
    s.level = s.level + floor(max(0, s.peak - floor(s.peak / NEAR) - s.level) / REGAIN)
  end
  return true
end

local function isSlower(c)
  return c[RATE_CHANGE_TO_D] / c[RATE_CHANGE_TO_N] > c[RATE_CHANGE_FROM_D] / c[RATE_CHANGE_FROM_N]
end

-- noteRateChange adds a change to the field rateChanges. Consecutive increases become one change, and so do changes in
-- one direction that follow a budget.
local function noteRateChange(q, n, d, cause, reason)
  local kept = call('HGET', B .. 'q' .. q.nr, 'rateChanges')
  local list = kept and cmsgpack.unpack(kept) or {}
  local change = { now, q.n, q.d, n, d, cause, reason }
  local last = list[1]
  if last and (cause == 'delivered' or cause == 'budget') and last[RATE_CHANGE_CAUSE] == cause
    and isSlower(change) == isSlower(last) then
    change[RATE_CHANGE_FROM_N], change[RATE_CHANGE_FROM_D] = last[RATE_CHANGE_FROM_N], last[RATE_CHANGE_FROM_D]
    table.remove(list, 1)
  end
  table.insert(list, 1, change)
  list[MOST_RATE_CHANGES + 1] = nil
  call('HSET', B .. 'q' .. q.nr, 'rateChanges', cmsgpack.pack(list))
end

-- othersHeldByRate reports whether heldByRate is true and jobs wait, not counting those that came back in this call.
local function othersHeldByRate(q, came)
  return heldByRate(q) and call('ZCARD', B .. 'w' .. q.nr) + (q.laned and q.keyedWaiting or 0) - came > 0
end

-- adaptedRateOf returns n and d of the rate, and the state, under a changed spec with a rule and a rate. The rule is ''
-- if the rate does not adapt.
local function adaptedRateOf(q, rule, n, d)
  if rule == '' then return n, d, nil end
  if not q.adapt then return n, d, beginAdapted(rule) end
  if adapted(q).rule == rule then return q.n, q.d, q.adapt end
  if n ~= q.n or d ~= q.d then noteRateChange(q, n, d, 'put', '') end
  return n, d, beginAdapted(rule)
end

-- setAdaptedRate sets the rate of a queue. It returns n and d before and after, or nil if the rate stays.
local function setAdaptedRate(q, n, d, cause, reason)
  local fromN, fromD = q.n, q.d
  if n == fromN and d == fromD then return nil end
  noteRateChange(q, n, d, cause, reason)
  change(q, n, d, q.burst, now, now + HORIZON)
  set(q, 'n', n)
  set(q, 'd', d)
  saveBucket(q)
  return { fromN, fromD, n, d }
end

-- spread returns n and d of the rate at which so many departures are spread evenly over some us.
local function spread(q, left, over, baseN, baseD)
  local n, d = max(1, left - (q.burst - 1)), floor(over / 1000) * 1000 + 1000
  local wanted, present = d / n, q.d / q.n
  if wanted <= baseD / baseN then return baseN, baseD end
  if wanted > present * (1 - SAME_RATE) and wanted < present * (1 + SAME_RATE) then return q.n, q.d end
  return ratio(n, d)
end

-- learn updates the rate of a queue after an answer that states the receiver's budget, or that does not, if budget is
-- nil. It returns what setAdaptedRate does, and for how long the queue stops.
local function learn(q, budget, departed)
  local s = adapted(q)
  local baseN, baseD = string.match(s.rule, '^learn (%d+) (%d+)')
  local n, d, stopped = baseN + 0, baseD + 0, 0
  if not budget then
    if s.changed == 0 or now < s.changed then return nil, 0 end
    s.changed = 0
  else
    if departed < s.lowered then return nil, 0 end
    local reset = min(budget.reset, MOST_RESET)
    s.changed, s.lowered = now + reset, departed
    if budget.remaining == 0 then
      withReceiver(q)
      stopped = receiver.stopFor(q, reset, USED_UP)
    else
      local leased = q.size - call('ZCARD', B .. 'w' .. q.nr) - (q.laned and q.keyedWaiting or 0)
        - call('ZCARD', B .. 't' .. q.nr) - call('ZCARD', B .. 'K' .. q.nr)
      n, d = spread(q, min(budget.remaining, MOST_REMAINING) - leased, reset, n, d)
    end
  end
  set(q, 'adapt', encodeAdapted(s))
  return setAdaptedRate(q, n, d, 'budget', ''), stopped
end

-- observe updates the rate of a queue after the answer to a departure. It returns n and d before and after, or nil if
-- the rate stays.
local function observe(q, throttled, departed, reason, came)
  local s = adapted(q)
  if throttled then
    if not refused(s, departed) then return nil end
  elseif not othersHeldByRate(q, came) or not taken(q, s, departed) then
    return nil
  end
  local n, d = rateOf(s)
  set(q, 'adapt', encodeAdapted(s))
  return setAdaptedRate(q, n, d, throttled and 'throttled' or 'delivered', throttled and reason or '')
end

-- adaptToAnswers adapts the rate of a queue to the answers of a call: a has the queue's name, the answers so far, how
-- many jobs came back, and signals. A signal has the index of a settlement, whether it was throttled, when the job
-- departed, the reason, whether the queue learns and, if stated, the receiver's budget. It is called after all queues
-- of the call have given back unused departures. A bucket is rounded when its rate changes, so the order matters, and
-- both engines keep to it.
local function adaptToAnswers(a)
  local q, another = load(numberOf(a.name)), false
  for _, signal in ipairs(a.signals) do
    local at, rates, stopped = signal.index, nil, 0
    if signal.learns then
      rates, stopped = learn(q, signal.budget, signal.departed)
    else
      rates = observe(q, signal.throttled, signal.departed, signal.reason, a.cameBack)
    end
    if rates or stopped > 0 then
      if type(a.out[at]) ~= 'table' then a.out[at] = { a.out[at], 0, 0, 0 } end
      a.out[at][2] = max(a.out[at][2], stopped)
      for _, number in ipairs(rates or {}) do table.insert(a.out[at], number) end
      another = true
    end
  end
  if another then -- the time before is no lost slot
    if q.group == q then set(q, 'groupSince', now) end
    local e = putOnAgenda(q)
    if e then wakeFor(e, q) end
    if q.group == q then groups.wakeClaims(q) end
  end
  save(q)
end
