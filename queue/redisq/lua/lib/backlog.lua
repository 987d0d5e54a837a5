-- needs: overflow
-- gives: announce_room
--
-- What tells whoever brings jobs back from the overflow that a queue has room for them.

-- announce_room publishes that a queue with a backlog has room again: once a second at most, unless a Readmit came in
-- between. It is called after whatever makes room.
local function announce_room(q)
  load_overflow(q)
  if now < q.roomat + SECOND or readmit_room(q) < min(readmit_batch(q), q.deferred + q.behind) then return end
  publish(':room', q.name)
  set(q, 'roomat', now)
end
