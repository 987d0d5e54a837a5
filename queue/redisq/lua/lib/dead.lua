-- The dead jobs of a queue's name, which outlive the queue. What is kept of each stays under the number of the queue in
-- which it died.

-- checkDeadKeys raises unless the keys of the dead of a name have the right types.
local function checkDeadKeys(name)
  call('ZCARD', B .. 'd:' .. name)
  call('HLEN', B .. 'D:' .. name)
  call('HLEN', B .. 'R')
  call('ZCARD', B .. 'Y')
end

-- deadRef reads what B D:NAME says of a dead job: in which queue it died, by number, and what it takes, which older
-- stores do not say.
local function deadRef(ref)
  local nr, bytes = string.match(ref or '', '^([^:]+):?(%d*)$')
  return nr, tonumber(bytes) or 0
end

-- retention returns a queue by its name, or without one the name, how long its dead are kept, as the queue said when it
-- was deleted, and what they take; nil if there is neither a queue nor a dead job of that name.
local function retention(name)
  local nr = numberOf(name)
  local q = nr and readQueue(nr)
  if q then return q end
  local kept = call('HGET', B .. 'R', name)
  if not kept then return nil end
  local retentionFor, retentionMax = unpackStruct('>I7I7', kept)
  return { name = name, retentionFor = retentionFor, retentionMax = retentionMax,
    deadBytes = #kept > 14 and unpackStruct('>I7', kept, 15) or 0 }
end

-- countDeadBytes counts what the dead of a name take.
local function countDeadBytes(k, by)
  if by == 0 then return end
  k.deadBytes = max(0, (k.deadBytes or 0) + by)
  if k.nr then
    call('HSET', B .. 'q' .. k.nr, 'dead_bytes', k.deadBytes)
  else
    call('HSET', B .. 'R', k.name, pack('>I7I7I7', k.retentionFor, k.retentionMax, k.deadBytes))
  end
end

-- dropEndedJob drops what is kept of a job, if its key still has the one that ended at that instant.
local function dropEndedJob(nr, id, time)
  local job = jobKey(nr, id)
  if call('GETRANGE', job, 0, 7) == 'E' .. time then call('UNLINK', job) end
end

local deadBytes = {} -- by their keys, what jobs take that this call found dead

-- addDead puts jobs that died at an instant among the dead of their name. If one of the same id died in a former queue
-- of the name, the later one stands for both.
local function addDead(q, ids, at)
  local numbers, places, fields, bytes = B .. 'D:' .. q.name, {}, {}, 0
  local before = call('HMGET', numbers, unpack(ids))
  for i, id in ipairs(ids) do
    local nr, freed = deadRef(before[i])
    if nr and nr ~= q.nr then call('UNLINK', jobKey(nr, id)) end
    local takes = deadBytes[jobKey(q.nr, id)] or 0
    bytes = bytes + takes - freed
    places[2 * i - 1], places[2 * i] = at, id
    fields[2 * i - 1], fields[2 * i] = id, string.format('%s:%.0f', q.nr, takes)
  end
  countDeadBytes(q, bytes)
  M.dead = M.dead + call('ZADD', B .. 'd:' .. q.name, unpack(places))
  call('HSET', numbers, unpack(fields))
  call('ZADD', B .. 'Y', 0, q.name)
end

-- removeDead takes jobs out of the dead of a name.
local function removeDead(k, ids)
  local name, bytes = k.name, 0
  for _, ref in ipairs(call('HMGET', B .. 'D:' .. name, unpack(ids))) do
    local _, freed = deadRef(ref)
    bytes = bytes + freed
  end
  countDeadBytes(k, -bytes)
  M.dead = M.dead - call('ZREM', B .. 'd:' .. name, unpack(ids))
  call('HDEL', B .. 'D:' .. name, unpack(ids))
  if call('EXISTS', B .. 'd:' .. name) == 0 then
    call('ZREM', B .. 'Y', name)
    call('HDEL', B .. 'R', name)
  end
end

-- trimDead drops dead jobs beyond the retention, and others until so many bytes are free, the oldest first; a bounded
-- number a call. Returns how many.
local function trimDead(q, bytes)
  local key, gone, early = B .. 'd:' .. q.name, {}, 0
  local over = max(0, min(call('ZCARD', key) - q.retentionMax, 500))
  bytes = bytes or 0
  local oldest = call('ZRANGE', key, 0, over + 31, 'WITHSCORES')
  for i = 1, #oldest, 2 do
    local id, diedAt = oldest[i], tonumber(oldest[i + 1])
    local young = diedAt + q.retentionFor > now
    if #gone >= over and bytes <= 0 and young then break end
    local nr, freed = deadRef(call('HGET', B .. 'D:' .. q.name, id))
    if nr then dropEndedJob(nr, id, pack('>I7', diedAt)) end
    gone[#gone + 1] = id
    bytes, early = bytes - freed, early + (young and 1 or 0)
  end
  if gone[1] then removeDead(q, gone) end
  if q.nr then add(q, 'dead_dropped', early) end
  return #gone
end
