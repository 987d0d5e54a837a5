-- needs: departures
-- gives: states_of, save_limits, end_of, skip, window, repair_windows, used_up, all_ready_at, allows, take_all
-- gives: refund_quotas, give_back_paces, delay_paces, cover_paces, slots
--
-- The limits of a queue beside its rate: further paces, which are treated as its own bucket is, and quotas, by the
-- arithmetic of leaky/quota.go.
--
-- A limit has a name, by which it is known again after a change; then n, d and b of a pace, or max and the calendar of
-- a quota: period and phase, or the ends of its windows, 7 bytes each. Its state is tat, rem, last and lc, or ends_at
-- and used.

local END_BYTES, MOST_USED = 7, 2 ^ 40

local function limit_of(rule, state)
  local l = { name = rule[1], n = rule[2], d = rule[3], b = rule[4], max = rule[5], period = rule[6], phase = rule[7],
    ends = rule[8] }
  if l.max == 0 then
    l.tat, l.rem, l.last, l.lc = tonumber(state[1]) or 0, tonumber(state[2]) or 0, tonumber(state[3]) or 0,
      tonumber(state[4]) or 0
  else
    l.ends_at, l.used = tonumber(state[1]) or 0, tonumber(state[2]) or 0
  end
  return l
end

local function unpack_limits(rules, states)
  local limits = {}
  states = states and cmsgpack.unpack(states) or {}
  for i, rule in ipairs(cmsgpack.unpack(rules)) do limits[i] = limit_of(rule, states[i] or {}) end
  return limits
end

-- load_limits loads them, and when they were changed last.
local function load_limits(q)
  local v = call('HMGET', B .. 'q' .. q.nr, 'limits', 'lstate', 'lchanged')
  q.limits, q.lchanged = unpack_limits(v[1], v[2]), tonumber(v[3]) or 0
end

local function states_of(limits)
  local states = {}
  for i, l in ipairs(limits) do states[i] = l.max == 0 and { l.tat, l.rem, l.last, l.lc } or { l.ends_at, l.used } end
  return cmsgpack.pack(states)
end

local function save_limits(q) set(q, 'lstate', states_of(q.limits)) end

local function end_at(l, i) return (unpack_('>I7', l.ends, (i - 1) * END_BYTES + 1)) end

-- first_end_after returns which of a calendar's ends is the first after t, counted from 1.
local function first_end_after(l, t)
  local low, high = 1, #l.ends / END_BYTES + 1
  while low < high do
    local middle = floor((low + high) / 2)
    if end_at(l, middle) > t then high = middle else low = middle + 1 end
  end
  return low
end

-- last_step returns the last end of a calendar, and how long its last window is.
local function last_step(l)
  local count = #l.ends / END_BYTES
  return end_at(l, count), end_at(l, count) - end_at(l, count - 1)
end

-- end_of returns the end of the window that t is in.
local function end_of(l, t)
  if l.period > 0 then return t + l.period - (t - l.phase) % l.period end
  local i = first_end_after(l, t)
  if i <= #l.ends / END_BYTES then return end_at(l, i) end
  local last, step = last_step(l)
  return t + step - (t - last) % step
end

-- skip returns the end that comes k windows behind the one that ends at an instant.
local function skip(l, ends, k)
  if l.period > 0 then return min(ends + k * l.period, FARTHEST) end
  local i, count = first_end_after(l, ends - 1) + k, #l.ends / END_BYTES
  if i <= count then return end_at(l, i) end
  local last, step = last_step(l)
  return min(max(ends, last) + min(k, i - count) * step, FARTHEST)
end

-- window returns the end of a quota's window and what was used in it, as leaky.Quota.Repair leaves them.
local function window(l, at)
  local ends, present = l.ends_at, end_of(l, at)
  if ends > present and ends ~= end_of(l, present) then ends = present end
  return ends, min(max(l.used, 0), MOST_USED)
end

-- repair_windows sets right, before a visit, a window that no calendar could have.
local function repair_windows(q)
  for _, l in ipairs(q.limits or {}) do
    if l.max > 0 then l.ends_at, l.used = window(l, now) end
  end
end

-- used_up returns when the next window begins if the one at an instant (now, unless said) is used up. A window may have
-- been full when a job was let out ahead into the next one: then it is not counted any more.
local function used_up(l, at)
  at = at or now
  local ends, used = window(l, at)
  if at < ends and used >= l.max then return ends end
  local present = end_of(l, at)
  return ends > present and present or -math.huge
end

-- all_ready_at returns from when on all limits let a job out, as seen from at; d is what the bucket says.
local function all_ready_at(q, d, at)
  for _, l in ipairs(q.limits) do
    if l.max > 0 then
      d = max(d, used_up(l, at))
    else
      bounded(l)
      d = max(d, bucket_ready_at(l))
    end
  end
  return d
end

-- window_at is that of a departure.
local function window_at(l, d)
  local ends, used = window(l, d)
  if d >= ends then return end_of(l, d), 0 end
  return ends, used
end

-- allows reports whether all quotas have enough left for a departure at d. The first one that has not forfeits what it
-- has left.
local function allows(q, d, cost)
  for _, l in ipairs(q.limits or {}) do
    if l.max > 0 then
      local ends, used = window_at(l, d)
      if used + min(cost, l.max) > l.max then
        l.ends_at, l.used = ends, max(used, l.max)
        return false
      end
    end
  end
  return true
end

-- take_all takes from the bucket and all limits for a departure at d, which they allow. A pace that does not decide d
-- must not lose the fraction of a microsecond by which another puts it off (leaky.Pacer.TakeAt).
local function take_all(q, d, cost)
  take_at(q, d, bucket_ready_at(q) < d and d or now, cost)
  for _, l in ipairs(q.limits or {}) do
    if l.max == 0 then
      take_at(l, d, bucket_ready_at(l) < d and d or now, cost)
    else
      local ends, used = window_at(l, d)
      l.ends_at, l.used = ends, used + min(cost, l.max)
    end
  end
  return d
end

-- refund_quotas gives a departure at d back to the quotas, unless they may have changed since they counted it.
local function refund_quotas(q, d, cost)
  if not q.limits or d <= q.lchanged + HORIZON then return end
  for _, l in ipairs(q.limits) do
    if l.max > 0 and end_of(l, d) == l.ends_at then l.used = max(0, l.used - min(cost, l.max)) end
  end
  save_limits(q)
end

-- each_pace does something with every further pace.
local function each_pace(q, f, ...)
  for _, l in ipairs(q.limits) do
    if l.max == 0 then f(l, ...) end
  end
end

local function give_back_paces(q) each_pace(q, give_back) end
local function delay_paces(q, at, cost) each_pace(q, delay, at, cost) end
local function cover_paces(q, more)
  each_pace(q, function(l)
    l.tat, l.rem = advance(l, l.tat, l.rem, more)
    l.lc = l.lc + more
  end)
end

-- slots returns how many departures fit into a span, by the slowest pace.
local function slots(q, span)
  local fit = q.n > 0 and floor(span * q.n / q.d) or math.huge
  for _, l in ipairs(q.limits or {}) do
    if l.max == 0 then fit = min(fit, floor(span * l.n / l.d)) end
  end
  return fit < math.huge and fit or 0
end
