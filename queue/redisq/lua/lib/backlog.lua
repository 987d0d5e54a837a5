-- needs: overflow
--
-- Which queues have a backlog on the overflow, and whether they have room for it.

-- track_backlog keeps the list of queues with a backlog.
local function track_backlog(q)
  if backlogged(q) then call('ZADD', B .. 'o', 'NX', now, q.name) else call('ZREM', B .. 'o', q.name) end
end

-- Until the first of those on the overflow fits, of which the last Readmit found that it does not, there is no room.
local function readmit_room(q)
  if q.headneed > 0 and not fits_readmission(q, q.headneed) then return 0 end
  return max(0, min(q.mark - q.back, q.cap - q.size))
end
local function readmit_batch(q) return min(500, max(1, ceil(q.mark / 4))) end

-- announce_room publishes that a queue with a backlog has room again: once a second at most, unless a Readmit came in
-- between. It is called after whatever makes room.
local function announce_room(q)
  if not backlogged(q) then return end
  load_overflow(q)
  if now < q.roomat + SECOND or readmit_room(q) < min(readmit_batch(q), q.deferred + q.behind) then return end
  publish(':room', q.name)
  set(q, 'roomat', now)
end
