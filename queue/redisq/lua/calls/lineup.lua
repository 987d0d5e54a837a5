#!lua flags=allow-oom
-- needs: pace, leases, ended
-- for lanes: lanestate, eta, laneinfo
-- for limits: groups
-- for receiver: receiver
--
-- Read a page of what waits in a queue.
--
-- ARGV[2..5]  queue name; the lane before the page, or '' to begin; how many lanes to look at; 1 to read their keys
-- Returns  0 no such queue; or {the last lane looked at, or '' at the end; lanes; scheduled jobs; siblings; how long
--          the jobs delivered last were in flight, or 0; skew (see clock.lua)}. Twelve entries a lane: digest; jobs
--          waiting, jobs in all, tat, rem, last, last cost, until when it stops or 0, bytes, its limits (tat, rem,
--          last, wants each); cost of the waiting jobs; the beginning of the record of a job, or ''. Four entries for
--          scheduled jobs that are due at about the same time: when, lane, jobs, cost. Ten entries a sibling: jobs
--          waiting, their cost, weight, n, d, burst, tat, rem, last, last cost. Only the first page has scheduled jobs,
--          siblings and flights

begin()
local nr = numberOf(ARGV[2])
local q = nr and load(nr)
if not q then return 0 end
checkKeys(q)
withLanes(q)
local most, keyed = tonumber(ARGV[4]), ARGV[5] == '1'
local MOST_DUE, MOST_SIBLINGS, MOST_FLIGHTS = 64, 100, 16 -- queue.MaxDue, queue.MaxSiblings, queue.MaxFlights
local HEAD = 1200 -- bytes of a record up to the end of the lane's key, at most

-- waitingCost returns the cost of the jobs that wait in a lane. It is exact while turns tell it, or else estimated from
-- the first and the last job.
local function waitingCost(lane, waiting)
  if q.maxCost <= 1 then return waiting end
  if lane == ZERO and not q.mixed then
    local counts = eta.countWaiting(q)
    return eta.aheadOf(q, waiting, q.turn - (counts.head or q.turn), 1, true)
  end
  local W = lanes.waitingKey(q, lane)
  local first, last = call('ZRANGE', W, 0, 0)[1], call('ZRANGE', W, -1, -1)[1]
  return floor(waiting * (lanestate.costUnder(q, first) + lanestate.costUnder(q, last)) / 2)
end

local rows = {}

local function row(lane)
  local at = #rows
  rows[at + 1] = lane
  laneinfo.laneOf(q, lane, rows)
  local waiting = rows[at + 2]
  if waiting == 0 then
    for i = #rows, at + 1, -1 do rows[i] = nil end
    return
  end
  rows[#rows + 1] = waitingCost(lane, waiting)
  local first = keyed and lane ~= ZERO and call('ZRANGE', lanes.waitingKey(q, lane), 0, 0)[1]
  local record = first and redis.pcall('GETRANGE', jobKey(nr, first), 16, 16 + HEAD)
  rows[#rows + 1] = type(record) == 'string' and record or ''
end

-- due returns the scheduled jobs in a few steps.
local function due()
  local n, steps = call('ZCARD', B .. 't' .. nr), {}
  local many = min(n, MOST_DUE)
  for i = 0, many - 1 do
    local rank = floor(i * n / many)
    local jobs = floor((i + 1) * n / many) - rank
    local found = call('ZRANGE', B .. 't' .. nr, rank, rank, 'WITHSCORES')
    local entry = call('HGET', B .. 'f' .. nr, found[1])
    local at = #steps
    steps[at + 1], steps[at + 2] = tonumber(found[2]), entry and unpackLease(entry).lane or ZERO
    steps[at + 3], steps[at + 4] = jobs, jobs * lanestate.costUnder(q, found[1])
  end
  return steps
end

-- flight returns how long the jobs delivered last were in flight, on average; 0 if that is not known.
local function flight()
  local jobs, sum = 0, 0
  for _, entry in ipairs(call('LRANGE', B .. 'e' .. nr, -MOST_FLIGHTS, -1)) do
    local job = redis.pcall('GET', jobKey(nr, sub(entry, 8)))
    if type(job) == 'string' and sub(job, 1, 1) == 'E' and sub(job, 2, 8) == sub(entry, 1, 7) then
      local e = unpackEnded(job)
      if e.departed and e.ended + q.retentionFor > now then
        jobs, sum = jobs + 1, sum + max(0, e.ended - e.departed)
      end
    end
  end
  return floor(sum / max(1, jobs))
end

local function asSibling(m, list)
  withLanes(m)
  local counts = eta.countWaiting(m)
  if counts.waiting == 0 then return end
  list[#list + 1] = counts.waiting
  list[#list + 1] = eta.aheadOf(m, counts.waiting, m.turn - (counts.head or m.turn), 1, true)
  list[#list + 1] = m.weight
  local pace = m.group ~= m and { m.n, m.d, m.burst, m.tat, m.rem, m.last, m.lastCost } or { 0, 1, 1, 0, 0, 0, 0 }
  for _, value in ipairs(pace) do list[#list + 1] = value end
end

-- siblings returns the other members of the group that have jobs to let out.
local function siblings()
  local list, g = {}, q.group
  if not g then return list end
  for _, place in ipairs({ 'Y', 'R', 'c' }) do
    for _, member in ipairs(call('ZRANGE', B .. place .. g.nr, 0, MOST_SIBLINGS)) do
      local m = member ~= nr and #list < 10 * MOST_SIBLINGS and load(member)
      if m and (place ~= 'c' or groups.hasClients(m)) then asSibling(m, list) end
    end
  end
  return list
end

local found = q.laned and call('ZRANGEBYLEX', B .. 'u' .. nr, ARGV[3] == '' and '-' or '(' .. ARGV[3], '+', 'LIMIT', 0,
  most) or {}
local first = ARGV[3] == ''
if first then row(ZERO) end
for _, lane in ipairs(found) do row(lane) end
local answer = { #found == most and found[most] or '', rows, first and not keyed and due() or {},
  first and not keyed and siblings() or {}, first and not keyed and flight() or 0, skew }
finish()
return answer
