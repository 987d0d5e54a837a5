-- The dead jobs of a queue's name, which outlive the queue. What is kept of each stays under the number of the queue in
-- which it died.

-- checkDeadKeys raises unless the keys of the dead of a name have the right types.
local function checkDeadKeys(name)
  call('ZCARD', B .. 'd:' .. name)
  call('HLEN', B .. 'D:' .. name)
  call('HLEN', B .. 'R')
  call('ZCARD', B .. 'Y')
end

-- retention returns a queue by its name, or without one the name and how long its dead are kept, as the queue said
-- when it was deleted; nil if there is neither a queue nor a dead job of that name.
local function retention(name)
  local nr = numberOf(name)
  local q = nr and readQueue(nr)
  if q then return q end
  local kept = call('HGET', B .. 'R', name)
  if not kept then return nil end
  local rfor, rmax = unpack_('>I7I7', kept)
  return { name = name, rfor = rfor, rmax = rmax }
end

-- dropEndedJob drops what is kept of a job, if its key still has the one that ended at that instant.
local function dropEndedJob(nr, id, time)
  local job = jobKey(nr, id)
  if call('GETRANGE', job, 0, 7) == 'E' .. time then call('UNLINK', job) end
end

-- addDead puts jobs that died at an instant among the dead of their name. If one of the same id died in a former queue
-- of the name, the later one stands for both.
local function addDead(q, ids, at)
  local numbers, places, fields = B .. 'D:' .. q.name, {}, {}
  local before = call('HMGET', numbers, unpack(ids))
  for i, id in ipairs(ids) do
    if before[i] and before[i] ~= q.nr then call('UNLINK', jobKey(before[i], id)) end
    places[2 * i - 1], places[2 * i] = at, id
    fields[2 * i - 1], fields[2 * i] = id, q.nr
  end
  M.dead = M.dead + call('ZADD', B .. 'd:' .. q.name, unpack(places))
  call('HSET', numbers, unpack(fields))
  call('ZADD', B .. 'Y', 0, q.name)
end

-- removeDead takes jobs out of the dead of a name.
local function removeDead(name, ids)
  M.dead = M.dead - call('ZREM', B .. 'd:' .. name, unpack(ids))
  call('HDEL', B .. 'D:' .. name, unpack(ids))
  if call('EXISTS', B .. 'd:' .. name) == 0 then
    call('ZREM', B .. 'Y', name)
    call('HDEL', B .. 'R', name)
  end
end

-- trimDead drops dead jobs beyond the retention, the oldest first, a bounded number a call.
local function trimDead(q)
  local key, gone = B .. 'd:' .. q.name, {}
  local over = max(0, min(call('ZCARD', key) - q.rmax, 500))
  local oldest = call('ZRANGE', key, 0, over + 31, 'WITHSCORES')
  for i = 1, #oldest, 2 do
    local id, died_at = oldest[i], tonumber(oldest[i + 1])
    if #gone >= over and died_at + q.rfor > now then break end
    local nr = call('HGET', B .. 'D:' .. q.name, id)
    if nr then dropEndedJob(nr, id, pack('>I7', died_at)) end
    gone[#gone + 1] = id
  end
  if gone[1] then removeDead(q.name, gone) end
end
