-- The limits of lanes in units other than jobs, such as tokens. They are budgets (units.lua), as limits of queues are.
--
-- A lane's bucket has them in limits, and in changed when they last changed. Packed they are a list: changed, and of
-- each limit the name, n, d, burst and its state as in the limits of a queue.

-- limitOfLane returns a limit of a lane, with the state that begins at an index of a list.
local function limitOfLane(name, n, d, burst, state, at)
  local l = { name = name, unit = string.match(name, '^%S*'), n = n, d = d, burst = burst, max = 0, budget = true,
    tat = tonumber(state[at]) or 0, rem = tonumber(state[at + 1]) or 0, last = tonumber(state[at + 2]) or 0,
    wants = tonumber(state[at + 3]) or 0, lows = {} }
  for k = at + 4, #state - 1, 2 do
    local lows = #l.lows
    l.lows[lows + 1], l.lows[lows + 2] = tonumber(state[k]) or 0, tonumber(state[k + 1]) or 0
  end
  return l
end

-- keptLimits returns packed limits, and when they last changed.
local function keptLimits(packed)
  local found, list = pcall(cmsgpack.unpack, packed)
  local own = {}
  if not found or type(list) ~= 'table' then return nil, 0 end
  for i = 2, #list do
    local s = list[i]
    if type(s) == 'table' and type(s[1]) == 'string' and (tonumber(s[2]) or 0) > 0 then
      own[#own + 1] = limitOfLane(s[1], s[2], tonumber(s[3]) or 1, tonumber(s[4]) or 1, s, 5)
    end
  end
  return own[1] and own, tonumber(list[1]) or 0
end

-- packLimits packs the limits of a bucket.
local function packLimits(l)
  if not l.limits or not l.limits[1] then return '' end
  local list = { l.changed }
  for i, own in ipairs(l.limits) do
    list[i + 1] = { own.name, own.n, own.d, own.burst, own.tat, own.rem, own.last, own.wants, unpack(own.lows) }
  end
  return cmsgpack.pack(list)
end

-- carryOver returns limits under new rules with the states of old ones. A limit with an equal rule keeps its state. The
-- others take over from the remaining old ones of the same unit, in order.
local function carryOver(old, rules)
  local next, taken = {}, {}
  for i, r in ipairs(rules) do
    local l = limitOfLane(r.name, r.n, r.d, r.burst, {}, 1)
    for k, before in ipairs(old) do
      if not taken[k] and before.name == l.name then
        taken[k], l.carried = true, true
        l.tat, l.rem, l.last, l.lows = before.tat, before.rem, before.last, before.lows
        break
      end
    end
    next[i] = l
  end
  for _, l in ipairs(next) do
    for k, before in ipairs(l.carried and {} or old) do
      if not taken[k] and before.unit == l.unit then
        taken[k] = true
        limits.changeBudget(l, before)
        break
      end
    end
  end
  return next
end

-- follow gives a bucket the limits of a rule, and reports whether they change. A limit that the bucket already has
-- keeps its state. Departures up to the last one were charged by the limits before.
local function follow(l, rule)
  local old, rules = l.limits or {}, rule.limits or {}
  local same = #old == #rules
  for i, r in ipairs(rules) do same = same and old[i].name == r.name end
  if same then return false end
  l.limits, l.changed = rules[1] and carryOver(old, rules) or nil, l.last - HORIZON
  return true
end

-- delaysUntil returns until when a bucket or one of its limits delays a departure. They may count as up to a horizon
-- later than they are (reign.lua), so they are kept that much longer.
local function delaysUntil(l)
  local at = l.tat
  for _, limit in ipairs(l.limits or {}) do at = max(at, limit.tat) end
  return at + HORIZON
end
