-- needs: leases, timeline
--
-- Held jobs: they may have been sent, and wait for a person's decision.

local function heldKey(q) return B .. 'K' .. q.nr end

-- onUnknown returns what a queue does with a job that may have been sent: 'hold', 'dead', or '' to try it again.
local function onUnknown(nr)
  local said = call('HGET', B .. 'q' .. nr, 'on_unknown')
  return (said == 'hold' or said == 'dead') and said or ''
end

-- endAttemptUnknown ends the attempt of a lease that ran out, in its record. unknown is what onUnknown returned.
local function endAttemptUnknown(f, unknown)
  addAttempt(f, unknown == 'hold' and ATTEMPT_UNKNOWN or unknown == 'dead' and ATTEMPT_DEAD or ATTEMPT_LOST, '')
  f.attempts, f.reason = f.attempts + 1, unknown == '' and 'the lease ran out'
    or 'the lease ran out; it may have been sent'
end

-- putHeld holds a job that was in flight; f is its lease record, which the caller writes.
local function putHeld(q, id, f)
  f.state, f.due = S.held, now
  call('ZADD', heldKey(q), now, id)
  call('HINCRBY', B, 'held', 1)
  if f.inFlight then lanestate.leaveFlight(q, f.lane) end
  f.inFlight = false
end
