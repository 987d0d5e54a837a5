-- needs: unsent
-- gives: expire
--
-- Ends expired jobs. The first call that finds some makes these functions.

local MOST_EXPIRED = 100 -- in a call

-- locate finds expired jobs in their lanes and among the scheduled ones. It also returns ids that are in neither or are
-- no jobs any more, and jobs whose lane is another program's key, which are looked at again later.
local function locate(q, ids)
  local found, of, scheduled, astray, later = {}, {}, { ids = {} }, {}, {}
  local entries = call('HMGET', B .. 'f' .. q.nr, unpack(ids))
  for i, id in ipairs(ids) do
    local job = redis.pcall('GETRANGE', jobKey(q.nr, id), 0, 63)
    local f = entries[i] and #entries[i] >= SETTLED and unpackLease(entries[i])
    local state = f and f.state or S.waiting
    if type(job) ~= 'string' or not LIVE[sub(job, 1, 1)] or #job < 28
      or state ~= S.waiting and state ~= S.scheduled then
      astray[#astray + 1] = id
    elseif state == S.scheduled then
      table.insert(scheduled.ids, id)
    else
      local lane = lanes.headOf(job, 27).lane
      if not of[lane] then
        of[lane] = { lane = lane, ids = {} }
        if type(redis.pcall('ZCARD', lanes.waitingKey(q, lane))) == 'number' then
          found[#found + 1] = of[lane]
        else
          later[#later + 1] = of[lane]
        end
      end
      table.insert(of[lane].ids, id)
    end
  end
  found[#found + 1] = scheduled
  return found, astray, later
end

-- expireQueue ends at most that many expired jobs of a queue, and returns how many it ended.
local function expireQueue(nr, most)
  local q = load(nr)
  if not q then raise('WRONGTYPE', B .. 'q' .. nr .. ' is gone') end
  checkKeys(q)
  withLanes(q)
  local ids = call('ZRANGEBYSCORE', B .. 'T' .. nr, '-inf', wall, 'LIMIT', 0, most)
  if not ids[1] then
    findFirstExpiry(q)
    return 0
  end
  local found, astray, later = locate(q, ids)
  local count = endUnsent(q, found, S.expired)
  for _, some in ipairs(later) do
    for _, id in ipairs(some.ids) do call('ZADD', B .. 'T' .. nr, wall + 2 * SECOND, id) end
  end
  if astray[1] then forgetExpiries(q, astray) elseif later[1] then findFirstExpiry(q) end
  save(q)
  return count
end

-- expire ends expired jobs of any queue, and returns how many.
local function expire(errors)
  local count = 0
  for _, nr in ipairs(call('ZRANGEBYSCORE', B .. 'T', '-inf', wall, 'LIMIT', 0, MOST_EXPIRED)) do
    if count == MOST_EXPIRED then break end
    local ok, n = pcall(expireQueue, nr, MOST_EXPIRED - count)
    if ok then
      count = count + n
    else
      call('ZADD', B .. 'T', wall + 2 * SECOND, nr)
      M.firstExpiry = tonumber(call('ZRANGE', B .. 'T', '0', '0', 'WITHSCORES')[2]) or 0
      if errors then
        errors[#errors + 1] = nr
        errors[#errors + 1] = errorText(n)
      end
    end
  end
  finish() -- even if the rest of the call fails
  return count
end
