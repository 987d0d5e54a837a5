-- Shared, behind lanes.lua: when a job is expected to depart.

local FARTHEST = 253402300799000000 -- as in leaky/pacer.go

-- pace_eta is leaky.Pacer.ETA, in the same steps.
local function pace_eta(q, ahead)
  bounded(q)
  if q.n == 0 then return now end
  local s = { n = q.n, d = q.d, b = q.b, tat = q.tat, rem = q.rem }
  if s.tat < now then s.tat, s.rem = now, 0 end
  return max(now, min(conforming(s) + ceil(ahead * q.d / q.n), FARTHEST))
end

-- line_of counts who waits: in all, in how many lanes, and from which turn on in
-- the one without a key.
local function line_of(q)
  lanes(q)
  local first = call('ZRANGE', B .. 'w' .. q.nr, 0, 0, 'WITHSCORES')[2]
  local line = { waiting = call('ZCARD', B .. 'w' .. q.nr) + q.lw, lanes = first and 1 or 0, head = tonumber(first) }
  if not q.laned then return line end
  for _, place in ipairs({ 'L', 'b', 'i' }) do
    local key = B .. place .. q.nr
    line.lanes = line.lanes + call('ZCARD', key)
    if call('ZSCORE', key, ZERO) then line.lanes = line.lanes - 1 end
  end
  return line
end

-- ahead_of is what departs before a job that has that many before it; its turn is
-- behind that much of the first one's. An ordinary one has no lane and no priority.
local function ahead_of(q, before, behind, cost, ordinary)
  local most_cost = max(q.cmax, cost)
  if most_cost == 1 or q.mixed or not ordinary then return before end
  return min(behind, before * most_cost)
end

-- lane_eta is the eta of a job that has i before it in its lane, m other lanes, and n
-- in all beside it, and whose rate decides it.
local function lane_eta(q, h, cost, behind, i, m, n)
  local at = pace_eta(q, ahead_of(q, min(n, i * (m + 1) + m), behind, cost, h.flags < LANE))
  local rule = rule_of(q, h.lane)
  local own = rule.n > 0 and pace_eta(bucket_of(q, h.lane, rule, now), i) or at
  if own > at then return own, 'lane_rate' end
  return at, 'rate'
end

-- aside_eta is that of a deferred job, which departs behind all that wait and jobs
-- on the overflow of that cost.
local function aside_eta(q, line, cost, before, not_before)
  local behind = q.turn - (line.head or q.turn)
  return max(pace_eta(q, ahead_of(q, line.waiting, behind, cost, true) + before), not_before)
end

-- expected returns the position of a job that waits, and its eta, also while it
-- is scheduled, and whose rate decides that. f is its flight, if it has one.
local function expected(q, line, id, job, f)
  local h = head_of(job, 27)
  local W, head = waiting_key(q, h.lane), line.head or 0
  if not f or f.state == S.waiting then
    local i = call('ZRANK', W, id) or 0
    return i + 1, lane_eta(q, h, cost_of(job), (tonumber(call('ZSCORE', W, id)) or head) - head, i, line.lanes - 1, line.waiting - 1)
  end
  local i, own = call('ZCOUNT', W, '-inf', string.format('(%.0f', f.turn)), call('ZCARD', W) > 0 and 1 or 0
  local at, by = lane_eta(q, h, cost_of(job), max(0, f.turn - (line.head or f.turn)), i, line.lanes - own, line.waiting)
  return 0, max(f.at, at), by
end

-- exact reports whether nothing but the pace decides an eta.
local function exact(q, line)
  return q.size == line.waiting and not q.paused and not q.mixed and q.mif == 0 and not q.ordered
end
