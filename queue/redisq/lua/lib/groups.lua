-- needs: limits, pace, weights
-- gives: loadLimitsAndGroup, placeMember, fileMember, noteGivenBack, countChildren, waitingElsewhere
-- gives: leaveTurns, pullsFrom, placePulled, hasClients, rejoin, claim, wakeClaims, reweigh
--
-- The group of a queue, and the places of its members.
--
-- The field links of a member has the number of its parent. q.group is the parent, which is its own group. The parent
-- keeps groupServed and groupSince, groupFloor (groupServed as of the latest job of a pull child), groupMaxCost (the
-- greatest cost of a job), groupWaiting and membersWaiting (how many jobs wait, in how many members), membersWeight
-- (the sum of the weights of these members) and childrenWeight (that of all children). A member keeps finish, and in
-- toldWaiting the number of waiting jobs that it last reported. A pull child reports none: whether it takes any slots
-- is up to its clients. It is on the agenda of the pull queues, and takes part in the turns by its claim.

local groupInVisit -- the group under visit, which its members share
local GROUP = { 'groupServed', 'groupSince', 'groupMaxCost', 'groupWaiting', 'membersWaiting', 'groupFloor',
  'membersWeight', 'childrenWeight' }

-- countChildren counts the queues whose names begin with this one and a dot. A slash is the next byte after a dot.
local function countChildren(name) return call('ZLEXCOUNT', B .. 'N', '[' .. name .. '.', '(' .. name .. '/') end

local function loadMember(q, nr)
  local finish, told, weight, estimates = unpack(call('HMGET', B .. 'q' .. q.nr, 'finish', 'toldWaiting', 'weight',
    'estimates'))
  q.finish, q.toldWaiting, q.weight = tonumber(finish) or 0, tonumber(told) or 0, tonumber(weight) or 1
  q.estimates = estimates
  if nr ~= q.nr then
    -- While a group is visited, its members share one table of it.
    q.group = groupInVisit and groupInVisit.nr == nr and groupInVisit or load(nr)
    if not q.group then raise('WRONGTYPE', B .. 'q' .. nr .. ', the parent of ' .. q.name .. ', is gone') end
    return
  end
  q.group = q
  local kept = call('HMGET', B .. 'q' .. nr, unpack(GROUP))
  for i, field in ipairs(GROUP) do q[field] = tonumber(kept[i]) or 0 end
  if not kept[7] then q.membersWeight = q.membersWaiting end -- written before there were weights
  if not kept[8] then q.childrenWeight = countChildren(q.name) end
end

-- loadLimitsAndGroup loads the limits and the group of a queue.
local function loadLimitsAndGroup(q)
  if q.limits or q.timed or q.laneUnits or q.group then return end
  local limited, nr = string.match(q.links or '', '^(%d):(.*)$')
  if limited == '1' then loadLimits(q) end
  if nr and nr ~= '' then loadMember(q, nr) end
end

-- reportWaiting updates the waiting jobs of a group after a change of a member.
local function reportWaiting(q)
  if q.laned then withLanes(q) end
  local g, waiting = q.group, q.pull and 0 or call('ZCARD', B .. 'w' .. q.nr) + (q.keyedWaiting or 0)
  if waiting == q.toldWaiting then return end
  set(g, 'groupWaiting', max(0, g.groupWaiting + waiting - q.toldWaiting))
  local more = (waiting > 0 and 1 or 0) - (q.toldWaiting > 0 and 1 or 0)
  set(g, 'membersWaiting', max(0, g.membersWaiting + more))
  set(g, 'membersWeight', max(0, g.membersWeight + more * q.weight))
  set(q, 'toldWaiting', waiting)
end

-- armGroup puts a group on the agenda, and returns from when on one of its members can depart, or nil.
local function armGroup(g)
  local e
  if not g.asleep then
    bounded(g)
    local from = max(readyAt(g), g.groupSince)
    if call('ZCARD', B .. 'Y' .. g.nr) > 0 then
      e = from
    else
      local first = call('ZRANGE', B .. 'R' .. g.nr, '0', '0', 'WITHSCORES')[2]
      if first then e = max(from, tonumber(first)) end
    end
  end
  if e then call('ZADD', B .. 'a', e, g.nr) else call('ZREM', B .. 'a', g.nr) end
  return e
end

-- placeMember gives a member its place in the group. It can depart from n on; if n is nil no job can depart. back is as
-- in putOnAgenda. In a visit to the group a member keeps the place that the visit gave it, if any.
local function placeMember(q, n, back)
  local g, m = q.group, q.member
  local R, Y = B .. 'R' .. g.nr, B .. 'Y' .. g.nr
  reportWaiting(q)
  -- A place says since when a job could depart, so it stays.
  if n and back == 'NX' and (call('ZSCORE', R, q.nr) or call('ZSCORE', Y, q.nr)) then return end
  if not n then
    call('ZREM', R, q.nr)
    call('ZREM', Y, q.nr)
  elseif m and m.place == 'Y' then
    call('ZREM', R, q.nr)
    call('ZADD', Y, m.at, q.nr)
  elseif not (back and call('ZSCORE', Y, q.nr)) then
    call('ZREM', Y, q.nr)
    if back then call('ZADD', R, back, n, q.nr) else call('ZADD', R, m and m.place and m.at or n, q.nr) end
  end
  if not m then return armGroup(g) end
end

-- fileMember moves a member with a quota, or the group of a parent with one, to when it is next due, if that is sooner.
local function fileMember(q)
  if q.group == q then return armGroup(q) end
  local opens = nextDeparture(q)
  if call('ZADD', B .. 'R' .. q.group.nr, 'XX', 'LT', 'CH', opens, q.nr) == 1 then
    armGroup(q.group)
    wakeFor(opens, q)
  end
end

-- noteGivenBack is called before a departure is given back: the time before that departure counts as no lost slot.
local function noteGivenBack(g)
  bounded(g)
  set(g, 'groupSince', max(g.groupSince, min(now, readyAt(g))))
end

-- waitingElsewhere returns how many jobs wait in other members, and the sum of the weights of these members.
local function waitingElsewhere(q)
  local g = q.group
  return max(0, g.groupWaiting - q.toldWaiting), max(0, g.membersWeight - (q.toldWaiting > 0 and q.weight or 0))
end

-- reweigh changes the weight of a member.
local function reweigh(q, weight)
  local g, by = q.group, weight - q.weight
  if by == 0 then return end
  if q.toldWaiting > 0 then set(g, 'membersWeight', max(0, g.membersWeight + by)) end
  if q ~= g then set(g, 'childrenWeight', g.childrenWeight + by) end
  q.weight = weight
end

local CLAIM_KEPT = HORIZON / 2 -- how late the clients of a pull child may be

local function claimsKey(g) return B .. 'c' .. g.nr end

-- leaveTurns takes a member out of its group's turns when it becomes a pull queue, or stops being one.
local function leaveTurns(q)
  local g = q.group
  call('ZREM', B .. 'R' .. g.nr, q.nr)
  call('ZREM', B .. 'Y' .. g.nr, q.nr)
  call('ZREM', claimsKey(g), q.nr)
  reportWaiting(q)
  armGroup(g)
end

-- hasClients reports whether the clients of a pull child still wait for its jobs.
local function hasClients(q)
  return (tonumber(call('HGET', B .. 'q' .. q.nr, 'pullersAskAt')) or 0) + CLAIM_KEPT > now
end

-- rejoin returns the tag of a pull child whose jobs a client asks for. Without a claim it joins as a newly active
-- member does.
local function rejoin(q)
  local at = tonumber(call('ZSCORE', claimsKey(q.group), q.nr))
  return at and hasClients(q) and max(at, q.finish) or max(q.finish, q.group.groupServed)
end

-- claim keeps the turn of a pull child whose clients got less than they asked for, if it waits for the group.
local function claim(q, unserved)
  local g, departs = q.group, tonumber(call('ZSCORE', B .. 'pa', q.nr))
  if unserved and departs and (g.asleep or departs <= nextDeparture(g)) then
    call('ZADD', claimsKey(g), rejoin(q), q.nr)
  else
    call('ZREM', claimsKey(g), q.nr)
  end
end

-- wakeClaims wakes the clients of pull children after the parent's pace has changed, or its pause is over.
local function wakeClaims(g)
  if g.asleep then return end
  local at = nextDeparture(g)
  for _, nr in ipairs(call('ZRANGE', claimsKey(g), 0, -1)) do
    local q = load(nr)
    if q then wakeFor(at, q) end
  end
end

-- pullsFrom returns since when, or from when on, a job of a pull child can depart, considering its group; nil if none
-- can. departs is that instant as far as the child is concerned, or nil.
local function pullsFrom(q, departs)
  local g = q.group
  if not departs or g.asleep then return nil end
  bounded(g)
  return max(departs, readyAt(g), g.groupSince)
end

-- placePulled updates what follows for the group when a pull child can depart from an instant on, or not at all. It
-- returns pullsFrom.
local function placePulled(q, departs)
  local g = q.group
  if not departs then call('ZREM', claimsKey(g), q.nr) end
  if g.slotBack then
    g.slotBack = nil
    local e = armGroup(g)
    if e then wakeFor(e, g) end
  end
  return pullsFrom(q, departs)
end
