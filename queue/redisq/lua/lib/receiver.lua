-- needs: pace, stopcauses
-- gives: loadReceiver, closeCircuit, succeed, fail, isSlow, noteSlow, stopFor, throttle, accept, stopsUntil
-- gives: stopLane, rise, noteDeparture, retarget, resume
--
-- What is kept of a receiver between calls: the queue's stop, the stops of its lanes, and the circuit.
--
-- A queue keeps it in the field receiverText, if there is anything: until when it stops and the cause, until when one
-- of its lanes may stop, failures in a row, when the circuit opened or 0, the time between probes, the reason of the
-- stop, the last failure; how often in a row the receiver throttled without a time, and the end of the last of these
-- stops; when a failure was last counted because circuit.slow had passed. The field circuit has how many failures open
-- the circuit, the shortest and the longest time between probes, and circuit.slow; '' if it is off.

local MOST_HELD = 86400 * SECOND
local SLOW_REASON = 'no answer for longer than circuit.slow'

-- loadReceiver loads q.receiver.
local function loadReceiver(q)
  if q.receiver then return end
  local v = q.receiverText and cmsgpack.unpack(q.receiverText) or {}
  local stop, cause, laneStopsUntil, failures, opened, probe, reason, lastFailure, throttles, throttledUntil, slowAt =
    unpack(v, 1, 11)
  q.receiver = { stop = tonumber(stop) or 0, cause = tostring(cause or ''), reason = tostring(reason or ''),
    laneStopsUntil = tonumber(laneStopsUntil) or 0, failures = tonumber(failures) or 0,
    lastFailure = tostring(lastFailure or ''), opened = tonumber(opened) or 0, probe = tonumber(probe) or 0,
    throttles = tonumber(throttles) or 0, throttledUntil = tonumber(throttledUntil) or 0,
    slowAt = tonumber(slowAt) or 0 }
  -- A planted instant too far ahead would stop the queue for good.
  if q.receiver.stop > now + MOST_HELD + HORIZON then q.receiver.stop = now end
  -- This one would keep the queue from ever stopping, because answers to earlier departures say nothing new.
  if q.receiver.throttledUntil > now + MOST_HELD + HORIZON then q.receiver.throttledUntil = 0 end
  if q.receiver.slowAt > now then q.receiver.slowAt = 0 end
  q.stop = q.receiver.stop > 0 and q.receiver.stop or nil
end

local function saveReceiver(q)
  local h = q.receiver
  q.stop = h.stop > 0 and h.stop or nil
  local nothing = h.stop == 0 and h.failures == 0 and h.opened == 0 and h.laneStopsUntil <= now and h.throttles == 0
    and h.slowAt == 0
  set(q, 'receiverText', nothing and '' or cmsgpack.pack({ h.stop, h.cause, h.laneStopsUntil, h.failures, h.opened,
    h.probe, h.reason, h.lastFailure, h.throttles, h.throttledUntil, h.slowAt }))
end

-- circuitOf returns the field circuit; nothing if the circuit is off.
local function circuitOf(q)
  local most, least, longest, slow =
    string.match(call('HGET', B .. 'q' .. q.nr, 'circuit') or '', '^(%d+) (%d+) (%d+) (%d+)$')
  return tonumber(most), tonumber(least), tonumber(longest), tonumber(slow)
end

-- stopUntil stops a queue until an instant, unless it stops for longer already. It returns for how long.
local function stopUntil(q, at, cause, why)
  local h = q.receiver
  if at <= max(h.stop, now) then return 0 end
  h.stop, h.cause, h.reason = at, cause, why
  return at - now
end

-- clearCircuit closes an open circuit in memory, closeCircuit also in the store.
local function clearCircuit(q)
  local h = q.receiver
  h.opened, h.lastFailure, h.failures, h.slowAt = 0, '', 0, 0
  if h.cause == STOP_DOWN then h.stop, h.cause, h.reason = now, '', '' end
end

local function closeCircuit(q)
  clearCircuit(q)
  saveReceiver(q)
end

-- retarget ends the stop of a queue that had no target.
local function retarget(q)
  local h = q.receiver
  if h.cause ~= STOP_NO_TARGET or h.stop <= now then return end
  h.stop, h.cause, h.reason = now, '', ''
  saveReceiver(q)
end

-- resume ends the stop, the circuit and the throttling of a queue, and reports whether there was any.
local function resume(q)
  local h = q.receiver
  if h.opened == 0 and h.stop <= now and h.throttles == 0 then return false end
  if h.opened > 0 then clearCircuit(q) end
  if h.stop > now then h.stop, h.cause, h.reason = now, '', '' end
  h.throttles, h.throttledUntil = 0, 0
  saveReceiver(q)
  return true
end

-- fail notes a failure that is the target's fault. It returns for how long the queue stops by it, and 1 if it opens the
-- circuit.
local function fail(q, reason)
  local h, stopped, opens = q.receiver, 0, false
  h.failures, h.lastFailure = h.failures + 1, reason
  local most, least
  if h.opened == 0 then most, least = circuitOf(q) end
  if most and h.failures >= most then
    opens, h.opened, h.probe = true, now, least
    stopped = stopUntil(q, now + h.probe, STOP_DOWN, reason)
  elseif h.opened > 0 and h.cause == STOP_DOWN then
    h.reason = reason
  end
  saveReceiver(q)
  return stopped, opens and 1 or 0
end

-- succeed notes an answer of a target that is up. It returns 1 if that closes the circuit.
local function succeed(q)
  local h = q.receiver
  if h.failures == 0 and h.opened == 0 then return 0 end
  local closes = h.opened > 0
  h.failures, h.slowAt = 0, 0
  if closes then clearCircuit(q) end
  saveReceiver(q)
  return closes and 1 or 0
end

-- stopFor stops a queue for as long as the receiver asked, or because it has no target. It returns for how long the
-- queue stops by that.
local function stopFor(q, after, reason, noTarget)
  local stopped = stopUntil(q, now + min(after, MOST_HELD), noTarget and STOP_NO_TARGET or STOP_THROTTLED, reason)
  if stopped > 0 then saveReceiver(q) end
  return stopped
end

-- throttle notes that the receiver throttled a job without a time: see queue.ThrottleStop. A job that departed before
-- the stop began says nothing new.
local function throttle(q, id, departed, after, reason)
  local h = q.receiver
  if departed < h.throttledUntil then return 0 end
  local wait = after
  if h.throttles > 0 or after <= 0 then
    wait = min(60, 2 ^ min(h.throttles, 10)) * SECOND
    wait = wait + floor(wait / 4 * tonumber(sub(redis.sha1hex(id), 1, 4), 16) / 65536)
  end
  local stopped = stopUntil(q, now + wait, STOP_THROTTLED, reason)
  h.throttles, h.throttledUntil = h.throttles + 1, h.stop
  saveReceiver(q)
  return stopped
end

-- accept notes an answer of a receiver that does not throttle, to a job that departed at that instant.
local function accept(q, departed)
  local h = q.receiver
  if h.throttles == 0 or departed < h.throttledUntil then return end
  h.throttles, h.throttledUntil = 0, 0
  saveReceiver(q)
end

-- noteSlow counts a failure because circuit.slow has passed. It returns what fail does.
local function noteSlow(q)
  q.receiver.slowAt = now
  return fail(q, SLOW_REASON)
end

-- isSlow reports whether circuit.slow has passed since an attempt departed, and since any attempt last counted a
-- failure for that. So a receiver that is only slow has time to answer before the circuit opens.
local function isSlow(q, departed)
  if q.pull or now - departed < SECOND then return false end
  local _, _, _, slow = circuitOf(q)
  return slow and now - max(departed, q.receiver.slowAt) >= slow
end

-- rise is leaky.Pacer.Rise: the bucket has earned nothing before an instant.
local function rise(b, at)
  local whole, rest = burstParts(b)
  if b.tat < at + whole or b.tat == at + whole and b.rem < rest then
    b.tat, b.rem, b.last = at + whole, rest, max(b.last, at)
  end
end

-- noteDeparture is called for a job that is about to be granted at d. A queue has earned nothing while it was stopped.
-- While the circuit is open the job is a probe.
local function noteDeparture(q, d)
  local h = q.receiver
  rise(q, q.stop)
  for _, l in ipairs(q.limits or {}) do
    if l.pace then rise(l, q.stop) end
  end
  h.stop, h.cause, h.reason = 0, '', ''
  if h.opened > 0 then
    local _, _, longest = circuitOf(q)
    h.probe = min(2 * h.probe, longest or h.probe)
    h.stop, h.cause, h.reason = d + h.probe, STOP_DOWN, h.lastFailure
  end
  saveReceiver(q)
end

-- The stop of a lane has its own key, which lasts as long as the stop matters.
local function stopKey(q, lane) return B .. 'S' .. q.nr .. ':' .. lane end

-- stopsUntil returns until when a lane stops, or nil.
local function stopsUntil(q, lane)
  if q.receiver.laneStopsUntil <= now or lane == ZERO then return nil end
  local at = redis.pcall('GET', stopKey(q, lane))
  return type(at) == 'string' and tonumber(at) or nil
end

-- stopLane is stopFor for a lane with a rule.
local function stopLane(q, lane, rule, after)
  local h, at = q.receiver, now + min(after, MOST_HELD)
  if at <= max(stopsUntil(q, lane) or 0, now) then return 0 end
  -- A burst earns nothing while the lane is stopped. So the key also lasts for what a full burst spans.
  local over = at + (rule.n > 0 and ceil((rule.burst - 1) * rule.d / rule.n) + 1 or 0)
  local left = ceil((over - now) / 1000) + 1000 -- Redis counts from the beginning of the script, before now
  if ARGV[1] ~= '' then left = left + 3600000 end -- a simulated clock may stand still
  call('SET', stopKey(q, lane), at, 'PX', left)
  h.laneStopsUntil = max(h.laneStopsUntil, over)
  saveReceiver(q)
  return at - now
end
