-- leaky/concurrency.go, behind tally.lua.
--
-- A zset: name of a place -> until when it is held. The cost of a place beyond 1 is a sum of weights, powers of 2. Each
-- weight has a zset of the places with it, under the same key followed by its power and c, with the same instants. So
-- ranks show how much ends by an instant. The key followed by c alone holds the sum of all weights in use.
--
-- looked counts the commands and members that were looked at, freed or corrected: beyond a bound take.lua answers no
-- further questions.
local SOME, POWERS = 500, 14
looked = 0

-- tidy calls a command on one of the keys, and removes a key that another program wrote.
local function tidy(command, key, ...)
  local answer = redis.pcall(command, key, ...)
  if type(answer) == 'table' and answer.err then
    call('UNLINK', key)
    answer = call(command, key, ...)
  end
  return answer
end

local function heavyKey(s, power) return s.key .. power .. 'c' end

-- weigh reads the weights, and adds what places cost by them.
local function weigh(s)
  local all = tonumber(tidy('GET', s.costs)) or 0
  s.weighed = all > 0
  for power = 0, s.weighed and POWERS - 1 or -1 do
    local weight = 2 ^ power
    local n = floor(all / weight) % 2 == 1 and tidy('ZCARD', heavyKey(s, power)) or 0
    if n > 0 then
      s.heavy[#s.heavy + 1] = { weight = weight, key = heavyKey(s, power), ended = 0 }
      s.sum = s.sum + weight * n
    end
  end
end

-- drop frees up to SOME places, and returns what they cost.
local function drop(s, names)
  local cost = call('ZREM', s.key, unpack(names))
  for _, h in ipairs(s.heavy) do cost = cost + h.weight * call('ZREM', h.key, unpack(names)) end
  looked = looked + #names * (1 + #s.heavy)
  return cost
end

local function noteLast(s) s.last = tonumber(call('ZRANGE', s.key, -1, -1, 'WITHSCORES')[2]) end

-- endedBy returns how much ends by an instant, and neither is freed yet nor has ended by now.
local function endedBy(s, at)
  local cost = call('ZCOUNT', s.key, '-inf', at) - s.ended
  for _, h in ipairs(s.heavy) do cost = cost + h.weight * (call('ZCOUNT', h.key, '-inf', at) - h.ended) end
  looked = looked + 1 + #s.heavy
  return cost
end

-- passOver counts the places that have ended and are not freed yet.
local function passOver(s)
  s.ended = call('ZCOUNT', s.key, '-inf', now)
  for _, h in ipairs(s.heavy) do h.ended = call('ZCOUNT', h.key, '-inf', now) end
end

-- read frees some of the places that have ended. The rest count for nothing, and later calls free them.
local function read(l, key)
  local s = { l = l, key = key, costs = key .. 'c', ended = 0, heavy = {} }
  s.sum = tidy('ZCARD', s.key)
  if s.sum > 0 then weigh(s) else s.weighed = true end -- entries of places that are gone count for nothing
  local ended = s.sum > 0 and call('ZRANGEBYSCORE', s.key, '-inf', now, 'LIMIT', 0, SOME) or {}
  if ended[1] then s.sum = s.sum - drop(s, ended) end
  if #ended == SOME then
    s.sum = s.sum - endedBy(s, now)
    passOver(s)
  end
  if s.sum > 0 then noteLast(s) end
  s.settled = s.last and s.last > now + l.second
  looked = looked + (1 + #s.heavy) * (s.settled and SOME or 1) -- write corrects up to SOME places
  return s
end

local function untilEnd(l, at) return max(0, min(at, now + l.second) - now) end
local function rest(l, key)
  local last = redis.pcall('ZRANGE', key, -1, -1, 'WITHSCORES')
  return last[2] and untilEnd(l, tonumber(last[2])) or 0
end
local function ends(s) return s.last and untilEnd(s.l, s.last) or 0 end

-- passes returns the time until so much is free: until the end of the first place that, with all places that end before
-- it, frees enough.
local function passes(l, s, cost)
  local low, high = cost, cost -- each frees 1 at least
  if s.heavy[1] then
    local places = call('ZCARD', s.key) - s.ended
    low, high = max(1, cost - (s.sum - places)), min(cost, places)
  end
  local function till(i) return call('ZRANGE', s.key, s.ended + i - 1, s.ended + i - 1, 'WITHSCORES')[2] end
  while low < high do
    local middle = floor((low + high) / 2)
    if endedBy(s, till(middle)) >= cost then high = middle else low = middle + 1 end
  end
  local at = till(low)
  return at and untilEnd(l, tonumber(at)) or ends(s) -- unless another program wrote into it
end

-- holds reports whether a place is taken. A place that has ended, and is not freed yet, is not.
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

-- makeHeavy notes what a new place costs beyond 1.
local function makeHeavy(s, place, beyond, till)
  for power = 0, POWERS - 1 do
    local weight, known = 2 ^ power, false
    if floor(beyond / weight) % 2 == 1 then
      local key = heavyKey(s, power)
      for _, h in ipairs(s.heavy) do known = known or h.weight == weight end
      if not known then
        call('UNLINK', key)
        s.heavy[#s.heavy + 1] = { weight = weight, key = key, ended = 0 }
      end
      call('ZADD', key, till, place)
    end
  end
end

local function take(l, s, cost, place)
  local till = now + l.second
  if holds(s, place) then
    for _, h in ipairs(s.heavy) do call('ZADD', h.key, 'XX', till, place) end
  else
    if s.ended > 0 and call('ZSCORE', s.key, place) then
      drop(s, { place })
      passOver(s)
    end
    s.sum = s.sum + cost
    if cost > 1 then makeHeavy(s, place, cost - 1, till) end
  end
  call('ZADD', s.key, till, place)
  s.last = max(s.last or 0, till)
end

local function back(_, s, _, place)
  if holds(s, place) then
    s.sum = s.sum - drop(s, { place })
    noteLast(s)
  end
  return s, ends(s)
end

local function unlink(s)
  call('UNLINK', s.key, s.costs)
  for _, h in ipairs(s.heavy) do call('UNLINK', h.key) end
end

local function anew(s)
  unlink(s)
  s.sum, s.ended, s.heavy, s.last, s.weighed = 0, 0, {}, nil, false
  return s
end

local function write(s)
  local l, left = s.l, ends(s)
  if left == 0 then return unlink(s) end
  -- No place ends later than if it were taken now. After a lowered TTL it may be many, and each call corrects some.
  if s.settled then
    for _, place in ipairs(call('ZREVRANGEBYSCORE', s.key, '+inf', '(' .. string.format('%.0f', now + l.second),
      'LIMIT', 0, SOME)) do
      call('ZADD', s.key, now + l.second, place)
      for _, h in ipairs(s.heavy) do call('ZADD', h.key, 'XX', now + l.second, place) end
    end
  end
  local lasts, all = lasting(left), 0
  call('PEXPIRE', s.key, lasts)
  for _, h in ipairs(s.heavy) do
    call('PEXPIRE', h.key, lasts)
    all = all + h.weight
  end
  if all > 0 then call('SET', s.costs, all, 'PX', lasts) elseif s.weighed then call('UNLINK', s.costs) end
end
