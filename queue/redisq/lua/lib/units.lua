-- needs: pace, budget
--
-- Limits that count another unit than jobs, such as tokens, and what jobs are charged. Of a budget, last is the latest
-- departure, and wants the credit that the next departure needs; see budget.lua.
--
-- A bill is what a job is charged: q, its queue, which has the estimates; cost; and job, what is stored of it. A record
-- has its costs behind its batch: 2 bytes of length, then for each unit 1 byte of length, its name and 4 bytes.

local JOB_HEAD = 511

-- creditReadyAt returns when the credit is there that the next departure needs, which may be in the past.
local function creditReadyAt(l)
  l.rem, l.wants = min(max(l.rem, 0), l.n - 1), min(max(l.wants, 0), l.burst)
  l.last = min(l.last, now + SECOND)
  if l.tat > now + MAX_DEBT + SECOND then l.tat, l.rem = now + MAX_DEBT + SECOND, 0 end
  return allows(l, l.wants)
end

-- lose is leaky.Budget.Lost: none of the burst is left at an instant.
local function lose(l, at)
  local whole, rest = span(l, l.burst)
  if rest > 0 then whole = whole + 1 end
  if l.tat < at + whole then l.tat, l.rem = at + whole, 0 end
  noteLow(l, at, 0)
end

-- changeBudget gives the budget l the state of another one, as leaky.Budget.Change does.
local function changeBudget(l, o)
  creditReadyAt(o)
  local tat = o.rem > 0 and o.tat + 1 or o.tat
  if tat > now then tat = now + ceil(min((tat - now) * (l.d / l.n / (o.d / o.n)), MAX_DEBT)) end
  if l.burst > o.burst then
    local whole, rest = span(l, l.burst - o.burst)
    tat = tat + whole + (rest > 0 and 1 or 0)
  end
  l.tat, l.rem, l.last, l.wants, l.lows = tat, 0, o.last, 0, {}
  creditReadyAt(l)
end

-- costsAt returns where the costs begin and end in a record with its flags at that byte of s; nil without costs. Of a
-- damaged record, they end with it.
local function costsAt(s, at)
  local flags, pos = byte(s, at) or 0, at + 1
  if bit.band(flags, EXPIRES) ~= 0 then pos = pos + 7 end
  if bit.band(flags, NOT_BEFORE) ~= 0 then pos = pos + 7 end
  if bit.band(flags, LANE) ~= 0 then pos = pos + 16 end
  if bit.band(flags, PRIORITY) ~= 0 then pos = pos + 1 end
  if bit.band(flags, BATCHED) ~= 0 then pos = pos + 1 + (byte(s, pos) or 0) end
  if flags < COSTS or #s <= pos then return nil, pos end
  return pos + 2, min(pos + 2 + unpackStruct('>I2', s, pos), #s + 1)
end

-- estimate returns what a new job that states no cost in a unit is charged, or nil: what was learned, or else the
-- default, of the queue's estimate or its parent's. With default true, it is the default.
local function estimate(q, unit, default)
  local text = ' ' .. unit .. '=(%d+)~?%d*~?(%d*)'
  local cost, learned = string.match(' ' .. (q.estimates or ''), text)
  if not cost and q.group then cost, learned = string.match(' ' .. (q.group.estimates or ''), text) end
  return tonumber(not default and learned ~= '' and learned or cost)
end

-- costIn returns what a limit charges for a job. A job that was appended before its queue counted the unit is charged
-- the default of the estimate, or 1: what was learned may have changed between its departure and its settlement.
local function costIn(l, bill)
  if not l.unit then return bill.cost end
  local pos, behind = costsAt(bill.job, 27)
  while pos and pos < behind do
    local length = byte(bill.job, pos)
    if pos + length + 5 > behind then break end
    if sub(bill.job, pos + 1, pos + length) == l.unit then
      return (unpackStruct('>I4', bill.job, pos + length + 1))
    end
    pos = pos + length + 5
  end
  return estimate(bill.q, l.unit, true) or 1
end

-- billOf returns the bill of a job. The beginning of its record is enough.
local function billOf(q, id)
  local job = redis.pcall('GETRANGE', jobKey(q.nr, id), 0, JOB_HEAD)
  if type(job) ~= 'string' or #job < 27 or not LIVE[sub(job, 1, 1)] then return { q = q, cost = 1, job = '' } end
  return { q = q, cost = unpackStruct('>I2', job, 25), job = job }
end

-- eachUnit calls f with the units that limits of a queue, its parent, and a lane count, until f returns something. lane
-- is ZERO for none.
local function eachUnit(q, lane, f)
  for _, of in ipairs({ q, q.group ~= q and q.group or nil }) do
    for _, l in ipairs(of.limits or {}) do
      local found = l.unit and f(l.unit)
      if found then return found end
    end
  end
  for _, l in ipairs(lane ~= ZERO and q.laneUnits and lanes.ruleOf(q, lane).limits or {}) do
    local found = f(string.match(l.name, '^%S*'))
    if found then return found end
  end
end

-- countsUnit reports whether a limit of a queue, any of its lanes, or its parent counts a unit. laneUnits are those of
-- its lanes, separated by spaces.
local function countsUnit(q, unit)
  if q.laneUnits and string.find(' ' .. q.laneUnits .. ' ', ' ' .. unit .. ' ', 1, true) then return true end
  return eachUnit(q, ZERO, function(other) return other == unit end)
end

-- resolveCosts gives a new job, with its flags at byte 19 of its body, its costs in all units that limits count: its
-- own, or else the estimates. It returns its body; or nil, a unit, and whether it has no cost in this unit, or no limit
-- counts it.
local function resolveCosts(q, body)
  local costs, units = {}, {}
  local first, behind = costsAt(body, 19)
  local pos = first
  while pos and pos < behind do
    local length = byte(body, pos)
    local unit = sub(body, pos + 1, pos + length)
    if not countsUnit(q, unit) then return nil, unit, false end
    costs[unit], units[#units + 1] = sub(body, pos, pos + length + 4), unit
    pos = pos + length + 5
  end
  local stated = #units
  local lane = q.laneUnits and lanes.headOf(body, 19).lane or ZERO
  local missing = eachUnit(q, lane, function(unit)
    if costs[unit] then return nil end
    local cost = estimate(q, unit)
    if not cost then return unit end
    costs[unit], units[#units + 1] = string.char(#unit) .. unit .. pack('>I4', cost), unit
  end)
  if missing then return nil, missing, true end
  if #units == stated then return body end
  table.sort(units)
  for i, unit in ipairs(units) do units[i] = costs[unit] end
  local packed = table.concat(units)
  return sub(body, 1, 18) .. string.char(byte(body, 19) % COSTS + COSTS) ..
    sub(body, 20, (first and first - 2 or behind) - 1) .. pack('>I2', #packed) .. packed .. sub(body, behind)
end

-- checkActual returns the first unit of actual costs that no limit counts, or nil.
local function checkActual(q, actual)
  for _, stated in ipairs(actual) do
    if not countsUnit(q, stated.unit) then return stated.unit end
  end
end

-- hasCredit reports whether each budget has enough for a departure at d. Budgets that have too little open later, when
-- there is enough: so cheaper jobs cannot overtake this one forever.
local function hasCredit(q, d, bill)
  local enough = true
  for _, l in ipairs(q.limits or {}) do
    if l.budget then
      reign.shiftBudget(l)
      local need = min(costIn(l, bill), l.burst)
      if d < allows(l, need) then l.wants, enough = max(l.wants, need), false end
    end
  end
  return enough
end

-- chargeBudgets charges budgets for a departure at d.
local function chargeBudgets(of, d, bill)
  for _, l in ipairs(of.limits or {}) do
    if l.budget then
      chargeUnits(l, d, costIn(l, bill))
      l.last, l.wants = max(l.last, d), 0
    end
  end
end

-- billToCorrect returns the bill of a job whose charges the actual costs correct: not of one that is given back, as is
-- a probe that failed. It also returns a unit that no limit counts, if there is one.
local function billToCorrect(q, id, entry, actual, back, failed)
  local uncounted = checkActual(q, actual)
  if uncounted or back or not entry or entry == '' then return nil, uncounted end
  local opened = q.receiver and q.receiver.opened or 0
  local _, _, departed = unpackStruct('>I2I7I7', entry, 2)
  if opened > 0 and failed and departed >= opened then return nil end
  return billOf(q, id)
end

local function correctLimits(list, departed, bill, actual, thisRun)
  for _, stated in ipairs(actual) do
    for _, l in ipairs(list) do
      if l.unit == stated.unit then
        local charged = costIn(l, bill)
        if not l.budget then
          limits.recount(l, departed, charged, stated.cost)
        elseif thisRun or stated.cost > charged then
          recharge(l, departed, charged, stated.cost)
        end
      end
    end
  end
end

-- correctCharges charges actual in place of what was charged for a departure; s is the state of the settlements. Of a
-- departure in an earlier run of the server budgets get nothing back, because later charges may have been lost.
local function correctCharges(s, departed, bill, actual, thisRun)
  local q, g = s.q, s.q.group
  s.returning = true -- jobs may leave sooner
  if g then groups.noteGivenBack(g) end
  learned.learnCosts(q, actual)
  for _, of in ipairs({ q, g and g ~= q and g or nil }) do
    if of.limits and departed > of.limitsChanged + HORIZON then
      correctLimits(of.limits, departed, bill, actual, thisRun)
      limits.saveLimits(of)
    end
  end
  if q.laneUnits then
    lanestate.rechargeLane(q, lanes.headOf(bill.job, 27).lane, departed, function(b)
      correctLimits(b.limits, departed, bill, actual, thisRun)
    end)
  end
end
