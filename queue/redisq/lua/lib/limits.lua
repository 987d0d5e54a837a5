-- needs: departures, units, calendar
-- gives: limitStates, saveLimits, turn, windowAt, repairWindows, usedUp, allReadyAt, affords, takeAll
-- gives: refund, giveBackPaces, delayPaces, coverPaces, slots, setHours, nextOpen, openSince, laneHours, commonHours
-- gives: etaWithin, stateOf, recount, estimate, resolveCosts, creditReadyAt, hasCredit, billOf
-- gives: billToCorrect, correctCharges, chargeBudgets, changeBudget, refundLimits
--
-- The limits of a queue beside its rate. Further paces are treated like its own bucket; quotas use the arithmetic of
-- leaky/quota.go, and their windows go by the wall clock.
--
-- A limit has a name, by which it is recognized after a change, and a unit, unless it counts jobs. A pace and a budget
-- (a rate of another unit, see units.lua) have n, d and burst. A quota has max and its calendar: period and phase, or
-- the ends of its windows, 7 bytes each, and perhaps a ramp (calendar.lua). The state of a pace is tat, rem, last and
-- lastCost, of a budget tat, rem, last, wants and its lows, of a quota windowEnds, used, and step, if it has a ramp.
--
-- The hours of a queue are the edges of its open spans, 7 bytes each; '-' if only lanes have hours. q.hours are those
-- of the queue itself. Hours go by the wall clock, like quotas.

local MOST_USED = 2 ^ 40

local function limitOf(rule, state)
  local name, n, d, burst, quota, period, phase, ends, unit, ramp = unpack(rule, 1, 10)
  local l = { name = name, n = n, d = d, burst = burst, max = quota, period = period, phase = phase, ends = ends,
    unit = unit ~= '' and unit or nil }
  if quota == 0 then
    local tat, rem, last, lastCost = unpack(state, 1, 4)
    l.tat, l.rem = tonumber(tat) or 0, tonumber(rem) or 0
    l.last, l.lastCost = tonumber(last) or 0, tonumber(lastCost) or 0
    if l.unit then
      l.budget, l.wants, l.lows = true, l.lastCost, {}
      for k = 5, #state - #state % 2 do l.lows[k - 4] = tonumber(state[k]) or 0 end
    else
      l.pace = true
    end
  else
    local windowEnds, used, step = unpack(state, 1, 3)
    l.windowEnds, l.used, l.step = tonumber(windowEnds) or 0, tonumber(used) or 0, tonumber(step) or 0
    setRamp(l, ramp or '')
  end
  return l
end

local function unpackLimits(rules, states)
  local limits = {}
  states = states and cmsgpack.unpack(states) or {}
  for i, rule in ipairs(cmsgpack.unpack(rules)) do limits[i] = limitOf(rule, states[i] or {}) end
  return limits
end

-- setHours sets the hours of a queue.
local function setHours(q, hours)
  q.timed = hours or nil
  q.hours = q.timed and hours ~= '-' and { ends = hours } or nil
end

-- loadLimits loads the limits, when they last changed, and the hours.
local function loadLimits(q)
  local rules, states, changed, hours, estimates, units = unpack(call('HMGET', B .. 'q' .. q.nr, 'limits',
    'limitsState', 'limitsChanged', 'hours', 'estimates', 'lanes.units'))
  q.estimates, q.laneUnits = estimates, units ~= '' and units or nil
  q.limits, q.limitsChanged = rules and unpackLimits(rules, states) or nil, tonumber(changed) or -math.huge
  setHours(q, hours)
end

local function stateOf(l)
  if l.max > 0 then return { l.windowEnds, l.used, l.ramp and l.step } end
  if l.budget then return { l.tat, l.rem, l.last, l.wants, unpack(l.lows) } end
  return { l.tat, l.rem, l.last, l.lastCost }
end

local function limitStates(limits)
  local states = {}
  for i, l in ipairs(limits) do states[i] = stateOf(l) end
  return cmsgpack.pack(states)
end

local function saveLimits(q) set(q, 'limitsState', limitStates(q.limits)) end

local BEYOND_EDGES, ETA_SPANS, COMMON_MOST = 60 * SECOND, 32, 16

-- nextOpen returns the first instant, not before t, that is within hours, if there are any. It is leaky.Hours.Next: an
-- even index of the next edge means that the hours are open.
local function nextOpen(h, t)
  local i = h and firstEndAfter(h, t - skew) or 0
  if i % 2 == 0 then return t end
  if i > #h.ends / END_BYTES then return t + BEYOND_EDGES end
  return endAt(h, i) + skew
end

-- openSince returns since when hours have been open, or when they open next.
local function openSince(h, t)
  local i = firstEndAfter(h, t - skew)
  return i % 2 == 0 and endAt(h, i - 1) + skew or nextOpen(h, t)
end

-- laneHours returns the hours of a lane by its rule, or nil.
local function laneHours(q, rule)
  local index = rule.hours
  if not index then return nil end
  q.hoursOfLanes = q.hoursOfLanes or {}
  if not q.hoursOfLanes[index] then
    q.hoursOfLanes[index] = { ends = call('HGET', B .. 'O' .. q.nr, 'h' .. index) or '' }
  end
  return q.hoursOfLanes[index]
end

-- commonHours returns the first instant, not before at, that is within the hours of a queue, of its parent, and own,
-- those of a lane or nil.
local function commonHours(q, own, at)
  local parents = q.group and q.group ~= q and q.group.hours or nil
  if not (parents or own) then return nextOpen(q.hours, at) end
  for _ = 1, COMMON_MOST do
    local before = at
    at = nextOpen(own, nextOpen(parents, nextOpen(q.hours, at)))
    if at == before then break end
  end
  return at
end

-- etaWithin is leaky.Hours.ETA for a bucket that is not before begin: ready is when the next job could leave, and burst
-- what idleness earns.
local function etaWithin(h, n, d, ready, burst, begin, ahead)
  local at, left, count = begin, ahead, #h.ends / END_BYTES
  for span = 1, ETA_SPANS do
    local leaves = max(at, ready + ceil(left * d / n))
    local i = firstEndAfter(h, at - skew)
    if i % 2 == 1 or leaves < endAt(h, i) + skew then return min(leaves, FARTHEST) end
    local closes = endAt(h, i) + skew
    local gone = floor((closes - ready - 1) * n / d) + 1
    if gone > 0 then
      left = left - min(gone, left)
      ready = ready + ceil(gone * d / n)
    end
    if span == ETA_SPANS or i == count then
      return min(closes + ceil((closes - begin) * left / max(1, ahead - left)), FARTHEST)
    end
    at = endAt(h, i + 1) + skew
    ready = max(ready, at - burst)
  end
end

-- window returns the end of a quota's window, the use of it and its step, as leaky.Quota.Repair leaves them.
local function window(l, at)
  local ends, present = l.windowEnds, endOf(l, at)
  if ends > present and ends ~= endOf(l, present) then ends = present end
  return ends, min(max(l.used, 0), MOST_USED), min(max(l.step, 0), l.lastStep)
end

-- repairWindows corrects, before a visit, windows that no calendar can have.
local function repairWindows(q)
  for _, l in ipairs(q.limits or {}) do
    if l.max > 0 then l.windowEnds, l.used, l.step = window(l, wall) end
  end
end

-- usedUp returns the end of the last window, past or to come, if that was used up, as seen from an instant (by default
-- now); else -inf. A window may have been full when a job departed ahead into the next one; then the full one no longer
-- counts. Of a budget it returns when there is the credit that it wants.
local function usedUp(l, at)
  if l.budget then return creditReadyAt(l) end
  at = (at or now) - skew
  local ends, used, step = window(l, at)
  if used >= most(l, ends, step) then return ends + skew end
  local present = endOf(l, at)
  return ends > present and present + skew or -math.huge
end

-- allReadyAt returns from when on all limits let a job out, as seen from at; d is that of the bucket.
local function allReadyAt(q, d, at)
  for _, l in ipairs(q.limits) do
    if l.pace then
      bounded(l)
      d = max(d, bucketReadyAt(l))
    else
      d = max(d, usedUp(l, at))
    end
  end
  return d
end

-- windowAt is window for a departure at d.
local function windowAt(l, d)
  d = d - skew
  local ends, used, step = window(l, d)
  if d >= ends then return endOf(l, d), 0, grown(l, ends, step, used > 0) end
  return ends, used, step
end

-- affords reports whether all quotas have enough left for a departure at d. The first one that has not forfeits the
-- rest of its window.
local function affords(q, d, bill)
  for _, l in ipairs(q.limits or {}) do
    if l.max > 0 then
      local ends, used, step = windowAt(l, d)
      local size = most(l, ends, step)
      if used + min(costIn(l, bill), size) > size then
        l.windowEnds, l.used, l.step = ends, max(used, size), step
        return false
      end
    end
  end
  return true
end

-- takeAll takes from the bucket and all limits for a departure at d, which they allow. A pace that does not decide d
-- must not lose the fraction of a microsecond by which another delays it (leaky.Pacer.TakeAt).
local function takeAll(q, d, bill)
  takeAt(q, d, bucketReadyAt(q) < d and d or now, bill.cost)
  for _, l in ipairs(q.limits or {}) do
    if l.pace then
      takeAt(l, d, bucketReadyAt(l) < d and d or now, bill.cost)
    elseif l.max > 0 then
      local ends, used, step = windowAt(l, d)
      l.windowEnds, l.used, l.step = ends, used + min(costIn(l, bill), most(l, ends, step)), step
    end
  end
  chargeBudgets(q, d, bill)
  return d
end

-- recount is leaky.Quota.Correct: it counts actual in place of an earlier charge for a departure at d.
local function recount(l, d, charged, actual)
  if endOf(l, d - skew) == l.windowEnds then
    l.used = min(MOST_USED, max(0, l.used - min(charged, most(l, l.windowEnds, l.step)) + actual))
  end
end

-- refundLimits gives a departure at d back to quotas and budgets. What budgets charged in an earlier run of the server
-- is not given back: later charges may have been lost.
local function refundLimits(list, d, bill, thisRun)
  for _, l in ipairs(list) do
    if l.max > 0 then
      recount(l, d, costIn(l, bill), 0)
    elseif l.budget and thisRun then
      recharge(l, d, costIn(l, bill), 0)
    end
  end
end

-- refund does so for a queue, unless its limits may have changed since they counted the departure.
local function refund(q, d, bill, thisRun)
  if not q.limits or d <= q.limitsChanged + HORIZON then return end
  refundLimits(q.limits, d, bill, thisRun)
  saveLimits(q)
end

-- eachPace calls f with every further pace.
local function eachPace(q, f, ...)
  for _, l in ipairs(q.limits) do
    if l.pace then f(l, ...) end
  end
end

local function giveBackPaces(q) eachPace(q, giveBack) end
local function delayPaces(q, at, cost)
  eachPace(q, delay, at, cost)
  for _, l in ipairs(q.limits) do
    if l.budget then lose(l, at) end
  end
end
local function coverPaces(q, more)
  eachPace(q, function(l)
    l.tat, l.rem = advance(l, l.tat, l.rem, more)
    l.lastCost = l.lastCost + more
  end)
end

-- slots returns how many departures of the slowest pace fit into a span.
local function slots(q, span)
  local fit = q.n > 0 and floor(span * q.n / q.d) or math.huge
  for _, l in ipairs(q.limits or {}) do
    if l.pace then fit = min(fit, floor(span * l.n / l.d)) end
  end
  return fit < math.huge and fit or 0
end
