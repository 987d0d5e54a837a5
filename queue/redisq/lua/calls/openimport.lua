#!lua
-- needs: import, agenda, versions, pause
-- for lanes: lanestate
-- for limits: groups
-- for receiver: receiver
--
-- Open a queue for an import.
--
-- ARGV[2..7]  name, spec (canonical JSON), mark of the import, turn, greatest cost, pause reason
-- Returns  {code, mark of the import that it was opened for}: 0 no such queue; 1 open; 2 this import was closed before;
--          3 it holds jobs; 4 it has another spec; 5 another import is not closed yet

begin()
local nr = numberOf(ARGV[2])
local q = nr and load(nr)
if not q then return { 0, '' } end
checkKeys(q)
local mark, open = importOf(nr)
if mark == ARGV[4] then return { open and 1 or 2, mark } end
if open then return { 5, mark } end
if q.size > 0 or hasBacklog(q) or call('HGET', B .. 'q' .. nr, 'died') then return { 3, mark } end
if specOf(q.name) ~= ARGV[3] then return { 4, mark } end
setPause(q, '1')
-- Jobs that come in meanwhile go behind all imported ones.
set(q, 'turn', max(q.turn, tonumber(ARGV[5])))
set(q, 'maxCost', max(q.maxCost, tonumber(ARGV[6])))
if q.group then
  set(q.group, 'groupMaxCost', max(q.group.groupMaxCost, q.maxCost))
  if q.group == q then set(q, 'groupSince', now) end
end
call('HSET', B .. 'q' .. nr, 'importMark', ARGV[4], 'importOpen', '1', 'pauseReason', ARGV[7], 'pausedBy', '',
  'pausedSince', now)
putOnAgenda(q)
save(q)
finish()
return { 1, ARGV[4] }
