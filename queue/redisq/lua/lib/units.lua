-- needs: pace
--
-- Limits that count another unit than jobs, such as tokens: what jobs are charged, and the arithmetic of
-- leaky/budget.go. Of a budget, tat is when the whole burst is available, last the latest departure, wants the credit
-- that the next departure needs, and lows an instant and how much was in use then, for each low.
--
-- A bill is what a job is charged: q, its queue, which has the estimates; cost; and job, what is stored of it. A record
-- has its costs behind its batch: 2 bytes of length, then for each unit 1 byte of length, its name and 4 bytes.

local MAX_DEBT, HALF, JOB_HEAD, MAX_LOWS = 365 * 86400 * SECOND, 2 ^ 15, 511, 8

-- span returns cost x T in whole microseconds, at most MAX_DEBT, and the rest in n-ths of one. The product may exceed
-- 2^53, so it is split.
local function span(l, cost)
  local each, part = floor(l.d / l.n), l.d % l.n
  if cost * each >= MAX_DEBT then return MAX_DEBT, 0 end
  local high = floor(cost / HALF) * part
  local low = high % l.n * HALF + cost % HALF * part
  local whole = cost * each + floor(high / l.n) * HALF + floor(low / l.n)
  if whole >= MAX_DEBT then return MAX_DEBT, 0 end
  return whole, low % l.n
end

-- allows returns from when on there is credit for a departure that needs so much.
local function allows(l, need)
  local whole, rest = span(l, l.burst - need)
  return l.tat - whole + (l.rem > rest and 1 or 0)
end

-- creditReadyAt returns when the credit is there that the next departure needs, which may be in the past.
local function creditReadyAt(l)
  l.rem, l.wants = min(max(l.rem, 0), l.n - 1), min(max(l.wants, 0), l.burst)
  l.last = min(l.last, now + SECOND)
  if l.tat > now + MAX_DEBT + SECOND then l.tat, l.rem = now + MAX_DEBT + SECOND, 0 end
  return allows(l, l.wants)
end

-- noteLow notes how much was in use before a charge.
local function noteLow(l, at, used)
  local lows, n = l.lows, #l.lows
  if n > 0 then at = max(at, lows[n - 1]) end
  while n > 0 and lows[n] >= used do
    lows[n], lows[n - 1], n = nil, nil, n - 2
  end
  if n == 2 * MAX_LOWS then
    lows[4], n = lows[2], n - 2
    table.remove(lows, 1)
    table.remove(lows, 1)
  end
  lows[n + 1], lows[n + 2] = at, used
end

-- lower lowers the lows from an index on.
local function lower(l, since, by)
  local old, n = l.lows, #l.lows
  if since > n then return end
  local keep, lows = since - 1, {}
  while keep > 0 and old[keep] >= old[since + 1] - by do keep = keep - 2 end
  for i = 1, keep do lows[i] = old[i] end
  for i = since, n, 2 do
    lows[#lows + 1] = old[i]
    lows[#lows + 1] = old[i + 1] - by
  end
  l.lows = lows
end

-- chargeUnits adds a cost as of an instant.
local function chargeUnits(l, at, cost)
  if cost == 0 then return end
  noteLow(l, at, max(0, l.tat - at))
  if l.tat < at then l.tat, l.rem = at, 0 end
  local whole, rest = span(l, cost)
  rest = rest + l.rem
  if rest >= l.n then whole, rest = whole + 1, rest - l.n end
  l.tat, l.rem = l.tat + whole, rest
  if l.tat >= at + MAX_DEBT then l.tat, l.rem = at + MAX_DEBT, 0 end
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

-- estimate returns the estimate of a queue, or of its parent, or nil.
local function estimate(q, unit)
  local cost = string.match(' ' .. (q.estimates or ''), ' ' .. unit .. '=(%d+)')
  if not cost and q.group then cost = string.match(' ' .. (q.group.estimates or ''), ' ' .. unit .. '=(%d+)') end
  return tonumber(cost)
end

-- estimated returns what a job that states no cost in a unit is charged: the estimate, or 1 without one.
local function estimated(q, unit) return estimate(q, unit) or 1 end

-- costIn returns what a limit charges for a job. A job that was appended before its queue counted the unit is charged
-- the estimate.
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
  return estimated(bill.q, l.unit)
end

-- billOf returns the bill of a job. The beginning of its record is enough.
local function billOf(q, id)
  local job = redis.pcall('GETRANGE', jobKey(q.nr, id), 0, JOB_HEAD)
  if type(job) ~= 'string' or #job < 27 or not LIVE[sub(job, 1, 1)] then return { q = q, cost = 1, job = '' } end
  return { q = q, cost = unpackStruct('>I2', job, 25), job = job }
end

-- eachUnit calls f with the units that limits of a queue and its parent count, until f returns something.
local function eachUnit(q, f)
  for _, of in ipairs({ q, q.group ~= q and q.group or nil }) do
    for _, l in ipairs(of.limits or {}) do
      local found = l.unit and f(l.unit)
      if found then return found end
    end
  end
end

local function countsUnit(q, unit) return eachUnit(q, function(other) return other == unit end) end

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
  local missing = eachUnit(q, function(unit)
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

-- recharge charges actual in place of the charge for a departure at d. A refund is bounded by the lows after d.
local function recharge(l, d, charged, actual)
  if actual >= charged then return chargeUnits(l, now, actual - charged) end
  local lows, since = l.lows, #l.lows + 1
  while since > 1 and lows[since - 2] > d do since = since - 2 end
  local whole, rest = span(l, charged - actual)
  if lows[since] and whole >= lows[since + 1] then whole, rest = lows[since + 1], 0 end
  l.tat, l.rem = l.tat - whole, l.rem - rest
  if l.rem < 0 then l.tat, l.rem = l.tat - 1, l.rem + l.n end
  lower(l, since, rest > 0 and whole + 1 or whole)
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

-- correctCharges charges actual in place of what was charged for a departure; s is the state of the settlements. Of a
-- departure in an earlier run of the server budgets get nothing back, because later charges may have been lost.
local function correctCharges(s, departed, bill, actual, token)
  local q, g, thisRun = s.q, s.q.group, sub(token, 1, 8) == M.run
  s.returning = true -- jobs may leave sooner
  if g then groups.noteGivenBack(g) end
  for _, of in ipairs({ q, g and g ~= q and g or nil }) do
    if of.limits and departed > of.limitsChanged + HORIZON then
      for _, stated in ipairs(actual) do
        for _, l in ipairs(of.limits) do
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
      limits.saveLimits(of)
    end
  end
end
