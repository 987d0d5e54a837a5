-- needs: overflow, room
-- gives: announceRoom
--
-- Notifies processes that readmit jobs from the overflow that a queue has room.

-- announceRoom publishes that a queue with a backlog has room again: at most once a second, unless a Readmit came in
-- between. It is called after everything that makes room.
local function announceRoom(q)
  loadOverflow(q)
  if now < q.announcedAt + SECOND or overflowRoom(q) < min(readmitBatch(q), q.deferred + q.behind) then return end
  call('PUBLISH', sub(B, 1, string.find(B, '{', 1, true) - 1) .. ':room', q.name)
  set(q, 'announcedAt', now)
end
