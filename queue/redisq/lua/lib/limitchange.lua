-- needs: limits, pacechange
-- gives: carryOverLimits, sameRules, rulesOf, limitsToKeep, keptLimits
--
-- Limits whose rules change, and what is kept of them when their queue is deleted.

-- carryOverLimits returns limits under new rules with the states of old ones. A limit with an equal rule keeps its
-- state. The others take over from the remaining old ones of the same kind, in order. So a change bypasses no limit.
local function carryOverLimits(rules, old)
  local limits, taken, left = {}, {}, {}
  local function kind(l) return (l.max == 0 and 'pace ' or 'quota ') .. (l.unit or '') end
  for i, rule in ipairs(rules) do
    local l = limitOf(rule, {})
    for k, before in ipairs(old) do
      if not taken[k] and before.name == l.name then
        taken[k], l.carried = true, true
        l.tat, l.rem, l.last, l.lastCost = before.tat, before.rem, before.last, before.lastCost
        l.windowEnds, l.used, l.step, l.lows = before.windowEnds, before.used, before.step, before.lows
        break
      end
    end
    limits[i] = l
  end
  for k, before in ipairs(old) do
    left[kind(before)] = left[kind(before)] or {}
    if not taken[k] then table.insert(left[kind(before)], before) end
  end
  for _, l in ipairs(limits) do
    local before = not l.carried and left[kind(l)] and table.remove(left[kind(l)], 1)
    if before and l.budget then
      changeBudget(l, before)
    elseif before and l.pace then
      change(before, l.n, l.d, l.burst, now, now + HORIZON)
      l.tat, l.rem, l.last, l.lastCost = before.tat, before.rem, before.last, before.lastCost
    elseif before then
      -- As leaky.Quota.Follow: if a job already left for the next window, the present one was full, or was forfeited.
      local ends, used = window(before, wall)
      local present, atEnds, _, atStep = endOf(l, wall), windowAt(before, now)
      l.step = carriedStep(l, before, most(before, atEnds, atStep))
      if ends > wall and ends == endOf(before, wall) then
        l.windowEnds, l.used = present, used
      elseif ends > wall and ends == endOf(l, present) then
        l.windowEnds, l.used = ends, used
      elseif ends > wall then
        l.windowEnds, l.used = present, max(used, most(l, present, l.step))
      end
    end
  end
  return limits
end

-- sameRules reports whether limits have the same rules. A calendar that is known further ahead is the same.
local function sameRules(limits, others)
  for i = 1, max(#limits, #others) do
    if not (limits[i] and others[i]) or limits[i].name ~= others[i].name then return false end
  end
  return true
end

local function rulesOf(limits)
  local rules = {}
  for i, l in ipairs(limits) do
    rules[i] = { l.name, l.n, l.d, l.burst, l.max, l.period, l.phase, l.ends, l.unit or '', l.ramp }
  end
  return cmsgpack.pack(rules)
end

-- limitsToKeep returns what a deleted queue leaves of its limits, and until when one of them delays a departure.
local function limitsToKeep(q)
  if not q.limits then return '', 0 end
  local delaysUntil = 0
  for _, l in ipairs(q.limits) do
    if l.max > 0 then
      local ends, used = window(l, wall)
      if used > 0 then delaysUntil = max(delaysUntil, ends + skew) end
    elseif l.budget then
      changeBudget(l, l)
      delaysUntil = max(delaysUntil, l.tat + 1)
    else
      atRest(l)
      delaysUntil = max(delaysUntil, l.tat + 1, l.last)
    end
  end
  return cmsgpack.pack({ rulesOf(q.limits), limitStates(q.limits) }), delaysUntil
end

-- keptLimits returns the limits that a deleted queue left.
local function keptLimits(grave)
  if grave == '' then return {} end
  return unpackLimits(unpack(cmsgpack.unpack(grave)))
end
