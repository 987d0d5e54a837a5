#!lua flags=allow-oom
-- needs: agenda, stored
-- for lanes: lanestate
-- for limits: groups
-- for receiver: receiver
--
-- Stop a queue because its receiver asked for a delay.
--
-- ARGV[2..4]  queue name, for how long in us, reason
-- Returns  {0} if there is no such queue, {2} if it is a parent, or {1, when the stop ends}

begin()
local nr = numberOf(ARGV[2])
local q = nr and load(nr)
if not q then return { 0 } end
if q.group == q then return { 2 } end
checkKeys(q)
withReceiver(q)
if receiver.stopFor(q, tonumber(ARGV[3]), ARGV[4]) > 0 then
  local e = putOnAgenda(q)
  if e then wakeFor(e, q) end
  save(q)
end
finish()
return { 1, q.receiver.stop }
