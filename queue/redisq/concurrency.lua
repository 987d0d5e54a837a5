-- leaky/concurrency.go, behind tally.lua.
--
-- A zset: name of a place -> until when it is held. What costs more than 1 is in a hash under the same key with a c behind it: name -> cost, and
-- '' -> what all of them cost beyond 1 each.
local SOME = 500

-- tidy calls a command on one of the two keys; what somebody else put there is removed.
local function tidy(s, command, key, ...)
  local answer = redis.pcall(command, key, ...)
  if type(answer) == 'table' and answer.err then
    call('UNLINK', key)
    answer = call(command, key, ...)
  end
  return answer
end

-- drop frees places.
local function drop(s, names)
  call('ZREM', s.key, unpack(names))
  s.sum = s.sum - #names
  if s.extra == 0 then return end
  for i, cost in ipairs(tidy(s, 'HMGET', s.costs, unpack(names))) do
    if cost then
      call('HDEL', s.costs, names[i])
      call('HINCRBY', s.costs, '', 1 - cost)
      s.sum, s.extra = s.sum + 1 - cost, s.extra + 1 - cost
    end
  end
end

local function note_last(s) s.last = tonumber(call('ZRANGE', s.key, -1, -1, 'WITHSCORES')[2]) end

-- read frees what has ended: at most as many as there may be, each once.
local function read(l, s)
  s.costs = s.key .. 'c'
  s.sum = tidy(s, 'ZCARD', s.key)
  s.extra = s.sum > 0 and tonumber(tidy(s, 'HGET', s.costs, '') or 0) or 0
  s.sum = s.sum + s.extra
  local ended
  repeat
    ended = s.sum > 0 and call('ZRANGEBYSCORE', s.key, '-inf', now, 'LIMIT', 0, SOME) or {}
    if ended[1] then drop(s, ended) end
  until #ended < SOME
  if s.sum > 0 then note_last(s) end
  s.settled, s.had_costs = s.last and s.last > now + l.second, s.extra > 0
end

local function until_(l, at) return max(0, min(at, now + l.second) - now) end
local function ends(l, s) return s.last and until_(l, s.last) or 0 end

-- passes returns how long it is until so much is free.
local function passes(l, s, cost)
  if s.extra == 0 then return until_(l, tonumber(call('ZRANGE', s.key, cost - 1, cost - 1, 'WITHSCORES')[2])) end
  for from = 0, MAX_ENTRIES, SOME do
    local places = call('ZRANGE', s.key, from, from + SOME - 1, 'WITHSCORES')
    for i = 1, #places, 2 do
      cost = cost - (call('HGET', s.costs, places[i]) or 1)
      if cost <= 0 then return until_(l, tonumber(places[i + 1])) end
    end
  end
  return ends(l, s) -- what somebody else wrote into it does not add up
end

local function holds(s, place) return place ~= '' and s.sum > 0 and call('ZSCORE', s.key, place) end

local function ask(l, s, cost, place)
  if holds(s, place) then return true, max(0, l.most - s.sum), 0, l.second end
  local over = s.sum + cost - l.most
  if over <= 0 then return true, -over, 0, l.second end
  return false, max(0, l.most - s.sum), passes(l, s, over), ends(l, s)
end

local function take(l, s, cost, place)
  if not holds(s, place) then
    s.sum = s.sum + cost
    if cost > 1 then
      s.extra = s.extra + cost - 1
      tidy(s, 'HSET', s.costs, place, cost)
      call('HINCRBY', s.costs, '', cost - 1)
    end
  end
  call('ZADD', s.key, now + l.second, place)
  s.last = max(s.last or 0, now + l.second)
end

local function back(_, s, _, place)
  if not holds(s, place) then return end
  drop(s, { place })
  note_last(s)
end

local function anew(s)
  call('UNLINK', s.key, s.costs)
  s.sum, s.extra, s.last = 0, 0, nil
end

local function write(l, s, px)
  -- None ends later than if it were taken now; after a lowered TTL it may be many, of which each call puts some right.
  if s.settled then
    for _, place in ipairs(call('ZREVRANGEBYSCORE', s.key, '+inf', '(' .. string.format('%.0f', now + l.second), 'LIMIT', 0, SOME)) do
      call('ZADD', s.key, now + l.second, place)
    end
  end
  call('PEXPIRE', s.key, px)
  if s.extra > 0 then call('PEXPIRE', s.costs, px) elseif s.had_costs then call('UNLINK', s.costs) end
end
