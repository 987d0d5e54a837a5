#!lua flags=allow-oom
-- needs: changelog, pacechange
-- for lanes: lanestate
-- for limits: limitchange, membership
-- for receiver: receiver
--
-- Delete a queue. Its keys are left to the sweeper, under a number that nothing refers to any more.
--
-- ARGV[2..5]  name, expected revision (-1: any), '1' to delete its jobs too, actor
-- Returns  {code, revision, or number of jobs or children}: 0 deleted; 1 no such queue; 2 another revision; 3 not
--          empty; 4 it has children

begin()
local name, expect = ARGV[2], tonumber(ARGV[3])
local nr = numberOf(name)
-- Do not load its lanes: the sweeper frees them, whatever is wrong with them. Only its parent's lanes may be loaded, at
-- the end.
local makeLanes = withLanes
withLanes = nil
local q = nr and load(nr)
withLanes = makeLanes
if not q then return { 1, 0 } end
if expect >= 0 and expect ~= q.revision then return { 2, q.revision } end
withLimits(q)
if q.group == q then return { 4, groups.countChildren(name) } end
local held = q.size + max(q.deferred, q.behind)
if held > 0 and ARGV[4] ~= '1' then return { 3, held } end
call('HLEN', B .. 'R')
checkChangeKeys('queue', name, ARGV[5])
for _, set in ipairs({ 'a', 's' }) do call('ZCARD', agendaKey(q, set)) end
if q.expiring then call('ZCARD', B .. 'T') end
-- The sweeper removes a key that has the wrong type.
local function count(command, key)
  local n = redis.pcall(command, key)
  return type(n) == 'number' and n or 0
end

call('ZREM', B .. 'o', name)
call('ZREM', B .. 'E', name)
-- Its dead jobs outlive it, under its present retention.
if count('ZCARD', B .. 'd:' .. name) > 0 then 
  call('HSET', B .. 'R', name, pack('>I7I7I7', q.retentionFor, q.retentionMax, q.deadBytes or 0))
end

logPauseEnd(q)
logChange('queue', name, wall, ARGV[5], 'deleted', q.revision, q.revision, '', '', 0)
markDeleted('queue', name)

-- A queue made again under the name continues from this bucket.
atRest(q)
local windows, lastEnds = limitchange.limitsToKeep(q)
local delaysUntil = max(q.tat + 1, q.last, lastEnds)
if delaysUntil > now then
  call('HSET', B .. 'x', name, pack('>I7I7I2I7I7I7', q.tat, q.last, q.lastCost, q.n, q.d, q.burst) .. windows)
  call('ZADD', B .. 'X', delaysUntil, name)
end
local past = call('ZRANGEBYSCORE', B .. 'X', '-inf', now, 'LIMIT', 0, 100)
if past[1] then
  call('ZREM', B .. 'X', unpack(past))
  call('HDEL', B .. 'x', unpack(past))
end
local waiting = count('ZCARD', B .. 'w' .. nr) + (tonumber(call('HGET', B .. 'q' .. nr, 'keyedWaiting')) or 0)
local scheduled, unsure = count('ZCARD', B .. 't' .. nr), count('ZCARD', B .. 'K' .. nr)
M.waiting, M.scheduled, M.leased = M.waiting - waiting, M.scheduled - scheduled,
  M.leased - (q.size - waiting - scheduled - unsure)
if unsure > 0 then call('HINCRBY', B, 'held', -unsure) end
M.deferred = M.deferred - q.deferred
call('HDEL', B .. 'n', name)
call('ZREM', B .. 'N', name)
call('ZREM', agendaKey(q, 'a'), nr)
call('ZREM', agendaKey(q, 's'), nr)
if q.expiring then
  call('ZREM', B .. 'T', nr)
  M.firstExpiry = tonumber(call('ZRANGE', B .. 'T', '0', '0', 'WITHSCORES')[2]) or 0
end
call('DEL', B .. 'q' .. nr)
call('RPUSH', B .. 'z', nr)
M.firstChore = now
call('HINCRBY', B, 'queues', -1)
-- A parent with broken keys must not keep a child from being deleted.
if q.group then pcall(membership.leaveGroup, q, name) end
finish()
return { 0, held }
