-- needs: pacechange, departures, weights, lanelimits
-- gives: checkLaneKeys, checkKeysFor, loadLanes, waitingKey, ruleOf, laneSize, inFlight, bucketOf, headOf
--
-- The lanes of a queue: their rules and buckets.
--
-- A queue that is not laned has only the lane without a key, and none of the keys below. It becomes laned by a spec
-- that bounds its jobs in flight, its scheduled jobs or its lanes, and by a job with a lane, a priority or a
-- not-before.

-- n, d, burst, capacity, max in flight, max bytes, weight; then perhaps the number of its hours, or 0, and limits in
-- other units: of each its name, which begins with the unit, behind the length of that; n, d and burst.
local RULE, RULE_BYTES = '>I4I7I4I4I4I7I2', 32
local TIMED_BYTES = RULE_BYTES + 2
local NO_RULE = { n = 0, d = 0, burst = 1, capacity = 0, maxInFlight = 0, bytes = 0, weight = 1 }
-- The rule that the bucket follows, tat, rem, last, last cost, the run of the server, covered cost, and the lane's tag
-- after its last departure. Buckets written by older programs have no tag. Limits in other units come behind, see
-- lanelimits.lua.
local LANE_BUCKET, LANE_BUCKET_BYTES = '>I4I7I4I7I4I7I2c8I2I7', 52

local function unpackRule(s)
  if s and #s == RULE_BYTES - 2 then s = s .. '\0\1' end -- written before there were weights
  if not s or #s ~= RULE_BYTES and #s < TIMED_BYTES then return NO_RULE end
  local r = {}
  r.n, r.d, r.burst, r.capacity, r.maxInFlight, r.bytes, r.weight = unpackStruct(RULE, s)
  r.paced = r.n > 0
  if #s == RULE_BYTES then return r end
  local hours = unpackStruct('>I2', s, RULE_BYTES + 1)
  if hours > 0 then r.hours = hours end
  local pos = TIMED_BYTES + 1
  while pos <= #s and #s >= pos + byte(s, pos) + 15 do
    local name, n, d, burst, behind = unpackStruct('>Bc0I4I7I4', s, pos)
    r.limits, r.paced = r.limits or {}, true
    r.limits[#r.limits + 1] = { name = name, n = n, d = d, burst = burst }
    pos = behind
  end
  return r
end

-- checkLaneKeys is checkKeys for the keys of lanes. It is also called before the first write that makes a queue laned.
local function checkLaneKeys(q)
  call('ZCARD', B .. 'L' .. q.nr)
  call('ZCARD', B .. 'b' .. q.nr)
  call('ZCARD', B .. 'i' .. q.nr)
  call('HLEN', B .. 'h' .. q.nr)
  call('ZCARD', B .. 'u' .. q.nr)
  call('HLEN', B .. 'k' .. q.nr)
  call('HLEN', B .. 'O' .. q.nr)
end

-- checkKeysFor is checkKeys for the keys that a queue gets with its first job with a head like h.
local function checkKeysFor(q, h)
  if h.flags >= LANE and not q.laned then
    checkKeys(q)
    checkLaneKeys(q)
  end
  if h.expires < math.huge and not q.expiring then checkExpiryKeys(q.nr) end
end

-- loadLanes loads what a queue keeps of its lanes, unless that is loaded. It raises unless their keys have the right
-- types. keyedWaiting is the number of jobs that wait in lanes with a key. mixed says that the queue ever had a job
-- that is not ordinary. changedAgain says that a rule was changed while lanes were still to be looked at for an earlier
-- change. maxCostAtOpen is the cost for which the queue was delayed in this run of the server. lanesUnknownSince is
-- when an import was closed, which brings no buckets of lanes.
local LANED = { 'keyedWaiting', 'served', 'ordered', 'max_in_flight', 'max_scheduled', 'mixed', 'lanes',
  'lanes.overrides', 'changedAgain', 'maxCostAtOpen', 'lanesUnknownSince' }

local function loadLanes(q)
  if q.keyedWaiting then return end
  local v = {}
  if q.laned then
    v = call('HMGET', B .. 'q' .. q.nr, unpack(LANED))
    checkLaneKeys(q)
  end
  local waiting, served, ordered, maxInFlight, maxScheduled, mixed, rule, overrides, again, maxCost, since =
    unpack(v, 1, 11)
  q.keyedWaiting, q.served, q.ordered = tonumber(waiting) or 0, tonumber(served) or 0, ordered == '1'
  q.maxInFlight, q.maxScheduled = tonumber(maxInFlight) or 0, tonumber(maxScheduled) or 0
  q.rule, q.laneOverrides = unpackRule(rule), tonumber(overrides) or 0
  q.mixed, q.changedAgain = mixed == '1', again == '1'
  q.maxCostAtOpen, q.lanesUnknownSince = tonumber(maxCost), tonumber(since) or 0
end

local function waitingKey(q, lane)
  if lane == ZERO then return B .. 'w' .. q.nr end
  return B .. 'w' .. q.nr .. ':' .. lane
end

local function ruleOf(q, lane)
  if lane == ZERO then return NO_RULE end
  local own = q.laneOverrides > 0 and call('HGET', B .. 'O' .. q.nr, lane)
  return own and unpackRule(own) or q.rule
end

-- What a queue holds of a lane is one number, the bytes times HELD plus the number of jobs, so that one command counts
-- both. It is read as text, because it may exceed 2^53.
local HELD, HELD_DIGITS = 10 ^ 8, 8

-- laneSize returns how many jobs the queue holds of a lane, and their bytes.
local function laneSize(q, lane)
  local packed = lane ~= ZERO and call('HGET', B .. 'h' .. q.nr, lane)
  if not packed then return 0, 0 end
  return tonumber(sub(packed, -HELD_DIGITS)) or 0, tonumber(sub(packed, 1, -HELD_DIGITS - 1)) or 0
end

local function inFlight(q, lane) return tonumber(call('HGET', B .. 'k' .. q.nr, lane)) or 0 end

-- inFlightLimit returns how many jobs of a lane may be in flight; 0 is any number.
local function inFlightLimit(q, rule) return q.ordered and 1 or rule.maxInFlight end

local function isBusy(q, lane)
  local limit = inFlightLimit(q, ruleOf(q, lane))
  return limit > 0 and inFlight(q, lane) >= limit
end

-- bucketOf returns a lane's bucket under a rule, with its limits in other units, and whether it followed another rule
-- before. A bucket that delays nothing any more counts as empty.
local function bucketOf(q, lane, rule, at)
  local l = { n = rule.n, d = rule.d, burst = rule.burst, tat = 0, rem = 0, last = 0, lastCost = 0,
    coveredCost = MAX_COST, tag = 0, changed = 0, since = max(M.runSince, q.lanesUnknownSince) }
  local kept, run, moved = redis.pcall('GET', B .. 'v' .. q.nr .. ':' .. lane), '', false
  if type(kept) == 'string' and #kept == LANE_BUCKET_BYTES - 7 then kept = kept .. '\0\0\0\0\0\0\0' end
  if type(kept) == 'string' and #kept >= LANE_BUCKET_BYTES then
    local n, d, burst, tat, rem, last, lastCost, inRun, coveredCost, tag = unpackStruct(LANE_BUCKET, kept)
    local b = { n = n, d = d, burst = burst, tat = tat, rem = rem, last = last, lastCost = lastCost,
      coveredCost = coveredCost, tag = tag, changed = 0, since = l.since }
    if #kept > LANE_BUCKET_BYTES then b.limits, b.changed = keptLimits(sub(kept, LANE_BUCKET_BYTES + 1)) end
    if delaysUntil(b) > now then
      l, run = b, inRun
      moved = n ~= rule.n or d ~= rule.d or burst ~= rule.burst
      if moved then change(l, rule.n, rule.d, rule.burst, at, at + HORIZON) end
    end
  end
  if (rule.limits or l.limits) and follow(l, rule) then moved = moved or run ~= '' end
  -- A server that lost its last writes may have granted more. The bucket is delayed for the cost for which the queue
  -- was delayed, and not for later jobs: else a costly job would delay every lane.
  if l.since > 0 and run ~= M.run then
    l.coveredCost = q.epoch == M.run and q.maxCostAtOpen or q.maxCost
    delay(l, l.since + HORIZON, l.coveredCost)
  end
  if q.receiver then l.stop = receiver.stopsUntil(q, lane) end
  return l, moved
end

-- coverLane is cover for a lane's bucket. It reports whether it changed the bucket: a delay for that cost may be over
-- by now.
local function coverLane(l, cost)
  if cost <= l.coveredCost then return false end
  local whole, rest = burstParts(l)
  if rest > 0 then whole = whole + 1 end
  if advance(l, l.since + HORIZON + whole, 0, cost) <= now then return false end
  if l.tat <= now then
    local own = l.limits -- they lost their bursts already
    l.limits = nil
    delay(l, l.since + HORIZON, cost)
    l.limits = own
  else
    l.tat, l.rem = advance(l, l.tat, l.rem, cost - l.coveredCost)
    l.lastCost = l.lastCost + cost - l.coveredCost
  end
  l.coveredCost = cost
  return true
end

local function keepBucket(q, lane, l)
  local key = B .. 'v' .. q.nr .. ':' .. lane
  local till = delaysUntil(l)
  if till <= now then return call('DEL', key) end
  local left = ceil((till - now) / 1000) + 1
  if ARGV[1] ~= '' then left = left + 3600000 end -- a simulated clock may stand still
  local packed = pack(LANE_BUCKET, l.n, l.d, l.burst, l.tat, l.rem, l.last, l.lastCost, M.run, l.coveredCost,
    l.tag)
  call('SET', key, packed .. packLimits(l), 'PX', left)
end

-- laneNext is leaky.Pacer.Next for a lane: when it lets its next job out.
local function laneNext(l, at)
  bounded(l, at + HORIZON)
  return max(at, readyAt(l))
end

-- restsUntil returns until when a lane rests as of an instant, and its bucket.
local function restsUntil(q, lane, rule, at)
  local opens, l, moved
  if not rule.paced then
    opens = max(at, q.receiver and receiver.stopsUntil(q, lane) or at)
  else
    l, moved = bucketOf(q, lane, rule, at)
    if moved then
      keepBucket(q, lane, l)
      if delaysUntil(l) <= now then l.tag = 0 end -- it is forgotten
    end
    opens = laneNext(l, at)
  end
  return rule.hours and limits.nextOpen(limits.laneHours(q, rule), opens) or opens, l
end

-- headOf reads the head of a record, with its flags at that byte of s, except for its batch and its costs.
local function headOf(s, at)
  local flags, pos = byte(s, at), at + 1
  local h = { flags = flags % BATCHED, expires = math.huge, notBefore = 0, lane = ZERO, priority = 0 }
  if bit.band(flags, EXPIRES) ~= 0 then h.expires, pos = unpackStruct('>I7', s, pos) end
  if bit.band(flags, NOT_BEFORE) ~= 0 then h.notBefore, pos = unpackStruct('>I7', s, pos) end
  if bit.band(flags, LANE) ~= 0 then h.lane, pos = unpackStruct('>c16', s, pos) end
  if bit.band(flags, PRIORITY) ~= 0 then h.priority = byte(s, pos) end
  return h
end
