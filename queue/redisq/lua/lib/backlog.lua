-- needs: overflow
-- gives: announceRoom
--
-- What tells whoever brings jobs back from the overflow that a queue has room for them.

-- announceRoom publishes that a queue with a backlog has room again: once a second at most, unless a Readmit came in
-- between. It is called after whatever makes room.
local function announceRoom(q)
  loadOverflow(q)
  if now < q.announcedAt + SECOND or overflowRoom(q) < min(readmitBatch(q), q.deferred + q.behind) then return end
  publish(':room', q.name)
  set(q, 'announcedAt', now)
end
