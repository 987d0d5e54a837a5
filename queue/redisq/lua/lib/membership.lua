-- needs: groups, agenda
-- gives: parentOf, saveLinks, childNumbers, joinGroup, leaveGroup
--
-- Queues that become members of a group, and that leave it.

local function parentOf(name) return string.match(name, '^(.*)%.') end

-- saveLinks writes the field links, by which load knows whether there are limits or a group.
local function saveLinks(q)
  local text = ((q.limits or q.timed or q.laneUnits) and '1' or '0') .. ':' .. (q.group and q.group.nr or '')
  call('HSET', B .. 'q' .. q.nr, 'links', text ~= '0:' and text or '')
end

-- restAsOnAgenda takes a queue off the agenda and lets it rest in its group until the same instant.
local function restAsOnAgenda(nr, g)
  local stood = call('ZSCORE', B .. 'a', nr)
  if not stood then return end
  call('ZREM', B .. 'a', nr)
  call('ZADD', B .. 'R' .. g.nr, stood, nr)
end

-- ensureGroup makes a queue the parent of a group with no other members yet.
local function ensureGroup(g)
  loadMember(g, g.nr)
  set(g, 'groupServed', 0)
  set(g, 'groupFloor', 0)
  set(g, 'groupSince', 0)
  set(g, 'groupWaiting', 0)
  set(g, 'membersWaiting', 0)
  set(g, 'membersWeight', 0)
  set(g, 'childrenWeight', 0)
  set(g, 'groupMaxCost', max(g.groupMaxCost, g.maxCost))
  set(g, 'finish', 0)
  set(g, 'toldWaiting', 0)
  call('DEL', B .. 'R' .. g.nr, B .. 'Y' .. g.nr, B .. 'c' .. g.nr)
  reportWaiting(g)
  restAsOnAgenda(g.nr, g)
  saveLinks(g)
end

-- childNumbers returns the numbers of the queues that have this parent, or will have it once it is made. It raises
-- unless their keys have the right types: a child left out would escape the rate of the group.
local function childNumbers(name)
  local numbers = {}
  for i, child in ipairs(call('ZRANGEBYLEX', B .. 'N', '[' .. name .. '.', '(' .. name .. '/')) do
    local nr = numberOf(child)
    call('HLEN', B .. 'q' .. nr)
    call('ZCARD', B .. 'w' .. nr)
    numbers[i] = nr
  end
  return numbers
end

-- addMember makes an existing queue a child of a queue that is being made.
local function addMember(g, nr)
  local key = B .. 'q' .. nr
  local q = readQueue(nr)
  local waiting = call('ZCARD', B .. 'w' .. nr) + (q.laned and tonumber(call('HGET', key, 'keyedWaiting')) or 0)
  if q.pull then waiting = 0 end
  local text = (q.links and sub(q.links, 1, 1) or '0') .. ':' .. g.nr
  call('HSET', key, 'links', text, 'toldWaiting', waiting, 'finish', 0)
  set(g, 'groupWaiting', g.groupWaiting + waiting)
  local weight = tonumber(call('HGET', key, 'weight')) or 1
  set(g, 'membersWaiting', g.membersWaiting + (waiting > 0 and 1 or 0))
  set(g, 'membersWeight', g.membersWeight + (waiting > 0 and weight or 0))
  set(g, 'childrenWeight', g.childrenWeight + weight)
  restAsOnAgenda(nr, g)
end

-- joinGroup adds a new queue to its group, if it has a parent or children. It is written already.
local function joinGroup(q, name)
  local base = parentOf(name)
  local nr = base and numberOf(base)
  local g = nr and load(nr)
  if g then
    if not g.group then ensureGroup(g) end
    q.group, q.toldWaiting, q.weight = g, 0, tonumber(call('HGET', B .. 'q' .. q.nr, 'weight')) or 1
    set(g, 'childrenWeight', g.childrenWeight + q.weight)
    saveLinks(q)
    armGroup(g)
    return save(g)
  end
  if base or countChildren(name) == 0 then return end
  ensureGroup(q)
  set(q, 'groupSince', now)
  for _, nr in ipairs(childNumbers(name)) do addMember(q, nr) end
  armGroup(q)
  save(q)
end

-- leaveGroup takes a child that is being deleted out of its group. Without children the parent is a plain queue again.
local function leaveGroup(q, name)
  local g = q.group
  call('ZREM', B .. 'R' .. g.nr, q.nr)
  call('ZREM', B .. 'Y' .. g.nr, q.nr)
  call('ZREM', B .. 'c' .. g.nr, q.nr)
  set(g, 'groupWaiting', max(0, g.groupWaiting - q.toldWaiting))
  set(g, 'membersWaiting', max(0, g.membersWaiting - (q.toldWaiting > 0 and 1 or 0)))
  set(g, 'membersWeight', max(0, g.membersWeight - (q.toldWaiting > 0 and q.weight or 0)))
  set(g, 'childrenWeight', max(0, g.childrenWeight - q.weight))
  if countChildren(parentOf(name)) > 0 then
    armGroup(g)
  else
    call('DEL', B .. 'R' .. g.nr, B .. 'Y' .. g.nr, B .. 'c' .. g.nr)
    g.group = nil
    saveLinks(g)
    if g.laned then withLanes(g) end
    putOnAgenda(g)
  end
  save(g)
end
