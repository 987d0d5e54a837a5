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

-- beyond returns what places cost beyond 1 each, and which of them do.
local function beyond(s, names)
  local sum, costly = 0, {}
  for i, cost in ipairs(s.extra > 0 and tidy(s, 'HMGET', s.costs, unpack(names)) or {}) do
    if cost then
      sum, costly[#costly + 1] = sum + cost - 1, names[i]
    end
  end
  return sum, costly
end

-- drop frees up to SOME places, and returns what they cost.
local function drop(s, names)
  call('ZREM', s.key, unpack(names))
  local more, costly = beyond(s, names)
  if costly[1] then
    call('HDEL', s.costs, unpack(costly))
    call('HINCRBY', s.costs, '', -more)
    s.extra = s.extra - more
  end
  return #names + more
end

local function note_last(s) s.last = tonumber(call('ZRANGE', s.key, -1, -1, 'WITHSCORES')[2]) end

-- pass_over counts those that have ended and are not freed yet, and takes them out of the sum.
local function pass_over(s)
  s.ended = call('ZCOUNT', s.key, '-inf', now)
  s.sum = s.sum - s.ended
  for from = 0, s.extra > 0 and s.ended - 1 or -1, SOME do
    s.sum = s.sum - beyond(s, call('ZRANGE', s.key, from, min(from + SOME, s.ended) - 1))
  end
end

-- read frees some of what has ended; the rest of it counts for nothing, and is freed by the next calls.
local function read(l, key)
  local s = { l = l, key = key, costs = key .. 'c', ended = 0 }
  s.sum = tidy(s, 'ZCARD', s.key)
  s.extra = s.sum > 0 and tonumber(tidy(s, 'HGET', s.costs, '') or 0) or 0
  s.sum, s.had_costs = s.sum + s.extra, s.extra > 0
  local ended = s.sum > 0 and call('ZRANGEBYSCORE', s.key, '-inf', now, 'LIMIT', 0, SOME) or {}
  if ended[1] then s.sum = s.sum - drop(s, ended) end
  if #ended == SOME then pass_over(s) end
  if s.sum > 0 then note_last(s) end
  s.settled = s.last and s.last > now + l.second
  return s
end

local function until_(l, at) return max(0, min(at, now + l.second) - now) end
local function ends(s) return s.last and until_(s.l, s.last) or 0 end

-- passes returns how long it is until so much is free.
local function passes(l, s, cost)
  if s.extra == 0 then return until_(l, tonumber(call('ZRANGE', s.key, s.ended + cost - 1, s.ended + cost - 1, 'WITHSCORES')[2])) end
  local from = s.ended
  while from <= s.ended + MAX_ENTRIES do
    local some = min(SOME, cost) -- each frees 1 at least
    local places, names = call('ZRANGE', s.key, from, from + some - 1, 'WITHSCORES'), {}
    for i = 1, #places, 2 do names[#names + 1] = places[i] end
    if not names[1] then break end
    for i, costs in ipairs(call('HMGET', s.costs, unpack(names))) do
      cost = cost - (costs or 1)
      if cost <= 0 then return until_(l, tonumber(places[2 * i])) end
    end
    from = from + some
  end
  return ends(s) -- what somebody else wrote into it does not add up
end

-- holds tells whether somebody has a place; whose has ended, and is not freed yet, has none.
local function holds(s, place)
  local at = place ~= '' and s.sum + s.ended > 0 and call('ZSCORE', s.key, place)
  return at and tonumber(at) > now
end

local function ask(l, s, cost, place)
  if holds(s, place) then return true, max(0, l.most - s.sum), 0, l.second, s end
  local over = s.sum + cost - l.most
  if over <= 0 then return true, -over, 0, l.second, s end
  return false, max(0, l.most - s.sum), cost <= l.most and passes(l, s, over) or 0, ends(s), s.settled and s
end

local function take(l, s, cost, place)
  if not holds(s, place) then
    if s.ended > 0 and call('ZSCORE', s.key, place) then
      drop(s, { place })
      s.ended = s.ended - 1
    end
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
  if holds(s, place) then
    s.sum = s.sum - drop(s, { place })
    note_last(s)
  end
  return s, ends(s)
end

local function anew(s)
  call('UNLINK', s.key, s.costs)
  s.sum, s.ended, s.extra, s.last = 0, 0, 0, nil
  return s
end

local function write(s)
  local l, left = s.l, ends(s)
  if left == 0 then return call('UNLINK', s.key, s.costs) end
  -- None ends later than if it were taken now; after a lowered TTL it may be many, of which each call puts some right.
  if s.settled then
    for _, place in ipairs(call('ZREVRANGEBYSCORE', s.key, '+inf', '(' .. string.format('%.0f', now + l.second), 'LIMIT', 0, SOME)) do
      call('ZADD', s.key, now + l.second, place)
    end
  end
  call('PEXPIRE', s.key, lasting(left))
  if s.extra > 0 then call('PEXPIRE', s.costs, lasting(left)) elseif s.had_costs then call('UNLINK', s.costs) end
end
