-- needs: groups, agenda
-- gives: parentOf, saveLinks, childNumbers, joinGroup, leaveGroup
--
-- Queues that become members of a group, and that leave it.

local function parentOf(name) return string.match(name, '^(.*)%.') end

-- saveLinks writes the field also, by which load knows that there are limits or a group.
local function saveLinks(q)
  local also = (q.limits and '1' or '0') .. ':' .. (q.group and q.group.nr or '')
  call('HSET', B .. 'q' .. q.nr, 'also', also ~= '0:' and also or '')
end

-- restAsOnAgenda takes a queue off the agenda and lets it rest in its group until the same instant.
local function restAsOnAgenda(nr, g)
  local stood = call('ZSCORE', B .. 'a', nr)
  if not stood then return end
  call('ZREM', B .. 'a', nr)
  call('ZADD', B .. 'R' .. g.nr, stood, nr)
end

-- ensureGroup makes a group of a queue, which knows of no members but itself.
local function ensureGroup(g)
  loadMember(g, g.nr)
  set(g, 'gserved', 0)
  set(g, 'gsince', 0)
  set(g, 'gwaiting', 0)
  set(g, 'gmembers', 0)
  set(g, 'gcmax', max(g.gcmax, g.cmax))
  set(g, 'finish', 0)
  set(g, 'told', 0)
  call('DEL', B .. 'R' .. g.nr, B .. 'Y' .. g.nr)
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

-- addMember makes an existing queue a child of the one that is being made.
local function addMember(g, nr)
  local key = B .. 'q' .. nr
  local q = readQueue(nr)
  local waiting = call('ZCARD', B .. 'w' .. nr) + (q.laned and tonumber(call('HGET', key, 'lw')) or 0)
  call('HSET', key, 'also', (q.also and sub(q.also, 1, 1) or '0') .. ':' .. g.nr, 'told', waiting, 'finish', 0)
  set(g, 'gwaiting', g.gwaiting + waiting)
  set(g, 'gmembers', g.gmembers + (waiting > 0 and 1 or 0))
  restAsOnAgenda(nr, g)
end

-- joinGroup makes a queue that has just been made a member of its group, if it has a parent or children. Its name is
-- on the list already.
local function joinGroup(q, name)
  local base = parentOf(name)
  local nr = base and numberOf(base)
  local g = nr and load(nr)
  if g then
    if not g.group then ensureGroup(g) end
    q.group, q.told = g, 0
    saveLinks(q)
    armGroup(g)
    return save(g)
  end
  if base or countChildren(name) == 0 then return saveLinks(q) end
  ensureGroup(q)
  set(q, 'gsince', now)
  for _, nr in ipairs(childNumbers(name)) do addMember(q, nr) end
  armGroup(q)
  save(q)
end

-- leaveGroup takes a child that is being deleted out of its group. If it was the last one the parent is a plain queue
-- again.
local function leaveGroup(q, name)
  local g = q.group
  call('ZREM', B .. 'R' .. g.nr, q.nr)
  call('ZREM', B .. 'Y' .. g.nr, q.nr)
  set(g, 'gwaiting', max(0, g.gwaiting - q.told))
  set(g, 'gmembers', max(0, g.gmembers - (q.told > 0 and 1 or 0)))
  if countChildren(parentOf(name)) > 0 then
    armGroup(g)
  else
    call('DEL', B .. 'R' .. g.nr, B .. 'Y' .. g.nr)
    g.group = nil
    saveLinks(g)
    if g.laned then withLanes(g) end
    putOnAgenda(g)
  end
  save(g)
end
