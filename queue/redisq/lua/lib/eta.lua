-- needs: lanes, pace, stored
-- gives: count_waiting, ahead_of, aside_eta, expected, is_exact
--
-- When a job is expected to depart.

-- resumes_at is when something leaves a queue again, by its pause and its parent's, and by its stop.
local function resumes_at(q) return max(now, q.till or 0, q.group and q.group.till or 0, q.stop or 0) end

-- pace_eta is leaky.Pacer.ETA, in the same steps, as of an instant, and not before the stop if there is one.
local function pace_eta(q, ahead, at, stop)
  bounded(q, at + HORIZON)
  if q.n == 0 then return at end
  local s = { n = q.n, d = q.d, b = q.b, tat = q.tat, rem = q.rem, last = q.last }
  if stop then receiver.rise(s, stop) end
  if s.tat < at then s.tat, s.rem = at, 0 end
  return max(at, min(ready_at(s) + ceil(ahead * q.d / q.n), FARTHEST))
end

-- quota_eta is leaky.Quota.ETA, of a limit of the queue q.
local function quota_eta(l, q, ahead, at)
  local ends, used = limits.window(l, at)
  if at >= ends then ends, used = limits.end_of(l, at), 0 end
  local over = ahead - max(0, l.max - used)
  if over < 0 then return at end
  local begins = limits.skip(l, ends, floor(over / l.max))
  return pace_eta({ n = q.n, d = q.d, b = q.b, tat = 0, rem = 0, last = 0, lc = 0 }, over % l.max, begins)
end

-- outflow_eta is when a job departs that has so much cost ahead of it, by the bucket and the limits of the queue. It
-- also returns the quota that decides it, if one does.
local function outflow_eta(q, ahead, goes)
  local stop = q.group ~= q and q.stop or nil
  local at, quota = pace_eta(q, ahead, goes, stop), nil
  for _, l in ipairs(q.limits or {}) do
    if l.max == 0 then
      local own = pace_eta(l, ahead, goes, stop)
      if own >= at then at, quota = own, nil end
    end
  end
  for _, l in ipairs(q.limits or {}) do
    local own = l.max > 0 and quota_eta(l, q, ahead, goes) or at
    if own > at then at, quota = own, l end
  end
  return at, quota
end

-- group_eta is when the group lets a job out: it has a ahead of it in its own queue, where n other jobs wait; deferred
-- is the part of a that is on the overflow.
local function group_eta(q, a, n, cost, deferred, goes)
  local g, elsewhere, k = q.group, groups.waiting_elsewhere(q)
  return outflow_eta(g, min(a * (k + 1) + k, (elsewhere + n) * max(g.gcmax, cost) + deferred), goes)
end

-- count_waiting counts the jobs that wait and the lanes in which they do; head is the turn of the first job in the lane
-- without a key.
local function count_waiting(q)
  load_lanes(q)
  local first = call('ZRANGE', B .. 'w' .. q.nr, '0', '0', 'WITHSCORES')[2]
  local counts = { waiting = call('ZCARD', B .. 'w' .. q.nr) + q.lw, lanes = first and 1 or 0, head = tonumber(first) }
  if not q.laned then return counts end
  for _, place in ipairs({ 'L', 'b', 'i' }) do
    local key = B .. place .. q.nr
    counts.lanes = counts.lanes + call('ZCARD', key)
    if call('ZSCORE', key, ZERO) then counts.lanes = counts.lanes - 1 end
  end
  return counts
end

-- ahead_of is the cost of what departs before a job that has so many jobs before it, and whose turn is so far behind
-- that of the first. An ordinary job has no lane and no priority.
local function ahead_of(q, before, behind, cost, ordinary)
  local most_cost = max(q.cmax, cost)
  if most_cost == 1 or q.mixed or not ordinary then return before end
  return min(behind, before * most_cost)
end

-- lane_eta is the eta of a job that has i before it in its lane, while m other lanes and n other jobs wait in all. It
-- also returns what decides it; if that is a quota, which; and whether it is the parent's.
local function lane_eta(q, h, cost, behind, i, m, n)
  local ahead = ahead_of(q, min(n, i * (m + 1) + m), behind, cost, h.flags < LANE)
  local goes = resumes_at(q)
  local at, quota, by = goes, nil, 'rate'
  if q.group ~= q then at, quota = outflow_eta(q, ahead, goes) end
  if quota then by = 'quota' end
  local rule = rule_of(q, h.lane)
  local own = at
  if rule.n > 0 then
    local l = bucket_of(q, h.lane, rule, now)
    own = pace_eta(l, i, max(goes, l.stop or 0), l.stop)
  elseif q.receiver then
    own = receiver.lane_stop(q, h.lane) or at
  end
  if own > at then at, quota, by = own, nil, 'lane_rate' end
  if not q.group then return at, by, quota end
  local together, its = group_eta(q, ahead, n, cost, 0, goes)
  if together > at then return together, its and 'quota' or 'parent', its, true end
  return at, by, quota
end

-- aside_eta is the eta of a deferred job, which departs after all that wait and after what is before it on the
-- overflow.
local function aside_eta(q, counts, cost, before, not_before)
  local behind = q.turn - (counts.head or q.turn)
  local ahead = ahead_of(q, counts.waiting, behind, cost, true) + before
  local goes = resumes_at(q)
  local at = q.group == q and goes or outflow_eta(q, ahead, goes)
  if q.group then at = max(at, (group_eta(q, ahead, counts.waiting, cost, before, goes))) end
  return max(at, not_before)
end

-- expected returns the position and the eta of a job that waits or is scheduled, and what decides the eta, as lane_eta
-- does. f is its lease record, if it has one.
local function expected(q, counts, id, job, f)
  local h = head_of(job, 27)
  local W, head = waiting_key(q, h.lane), counts.head or 0
  if not f or f.state == S.waiting then
    local i = call('ZRANK', W, id) or 0
    return i + 1, lane_eta(q, h, cost_of(job), (tonumber(call('ZSCORE', W, id)) or head) - head, i, counts.lanes - 1,
      counts.waiting - 1)
  end
  local i, own = call('ZCOUNT', W, '-inf', string.format('(%.0f', f.turn)), call('ZCARD', W) > 0 and 1 or 0
  local at, by, quota, together = lane_eta(q, h, cost_of(job), max(0, f.turn - (counts.head or f.turn)), i,
    counts.lanes - own, counts.waiting)
  return 0, max(f.at, at), by, quota, together
end

-- is_exact reports whether an eta depends on the pace alone.
local function is_exact(q, counts)
  return q.size == counts.waiting and not q.paused and not q.mixed and q.mif == 0 and not q.ordered and not q.limits
    and not q.group
    and not (q.stop and (q.stop > now or q.receiver.opened > 0))
end
