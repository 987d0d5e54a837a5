-- The dead jobs of a queue's name, which outlive the queue. Their records stay under the number of the queue in which
-- they died.

-- checkDeadKeys raises unless the keys of a name's dead jobs have the right types.
local function checkDeadKeys(name)
  call('ZCARD', B .. 'd:' .. name)
  call('HLEN', B .. 'D:' .. name)
  call('HLEN', B .. 'R')
  call('ZCARD', B .. 'Y')
end

-- deadRef reads the entry of a dead job in B D:NAME. It returns the number of the queue in which the job died, and the
-- bytes that it takes, 0 in older stores.
local function deadRef(ref)
  local nr, bytes = string.match(ref or '', '^([^:]+):?(%d*)$')
  return nr, tonumber(bytes) or 0
end

-- retention returns a queue by its name. If the queue was deleted, it returns the name, how long its dead jobs are
-- kept, and what they take; nil if it has no dead jobs.
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

-- countDeadBytes adds to the bytes that the dead jobs of a name take.
local function countDeadBytes(k, by)
  if by == 0 then return end
  k.deadBytes = max(0, (k.deadBytes or 0) + by)
  if k.nr then
    call('HSET', B .. 'q' .. k.nr, 'dead_bytes', k.deadBytes)
  else
    call('HSET', B .. 'R', k.name, pack('>I7I7I7', k.retentionFor, k.retentionMax, k.deadBytes))
  end
end

-- dropEndedJob drops the record of a job if its key still has the job that ended at that instant.
local function dropEndedJob(nr, id, time)
  local job = jobKey(nr, id)
  if call('GETRANGE', job, 0, 7) == 'E' .. time then call('UNLINK', job) end
end

local deadBytes = {} -- bytes of the jobs that died in this call, by their keys

-- addDead adds jobs that died at an instant to the dead jobs of their name. If a job with the same id died in a former
-- queue of that name, the later one replaces it.
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

-- removeDead removes jobs from the dead jobs of a name.
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

-- trimDead drops dead jobs beyond the retention, and others until so many bytes are free, the oldest first and a
-- bounded number a call. It returns how many.
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
