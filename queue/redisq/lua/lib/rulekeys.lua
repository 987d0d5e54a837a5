-- needs: tallies
--
-- Shared by take.lua and append.lua, behind tallies.lua: how many keys a rule holds.
--
-- <B>W<nr>, a zset: of the keys that count the digest, and a byte of how rare each is -> when it is as fresh, if
-- nothing is taken since it was looked at last. It has all keys while they are few, else those that are rare enough:
-- one that is as rare as n, or rarer, is one of 2^n. How rare a key is nobody can tell who does not know the rule's
-- salt. So of however many there are SAMPLE / 2 to SAMPLE, and the count is exact to about 1.5 %. The empty member has
-- how rare one must be, less than 0; without it all are there.
--
-- l.keys is how many keys a rule may hold, 0 if this one does not count; kind has the functions of the arithmetic.

local SAMPLE, SEEK, FEW = 8192, 256, 3
local crowds = {} -- by rules

local function crowd_of(key)
  local rule = sub(key, 1, -18)
  local c = crowds[rule]
  if c then return c end
  c = { key = B .. 'W' .. sub(rule, #B + 2), of = rule .. ':', level = 0,
    n = redis.pcall('ZCARD', B .. 'W' .. sub(rule, #B + 2)) }
  if type(c.n) ~= 'number' then -- what somebody else put there
    call('UNLINK', c.key)
    c.n = 0
  end
  local first = c.n > 0 and call('ZRANGE', c.key, 0, 0, 'WITHSCORES')
  if first and first[1] == '' then
    c.level, c.n = -tonumber(first[2]), c.n - 1
    if c.n == 0 then
      call('UNLINK', c.key)
      c.level = 0
    end
  end
  crowds[rule] = c
  return c
end

local function member(key, level) return sub(key, -16) .. string.char(level) end

-- look_at puts right what is known of some keys that should be as fresh by now: those that are count no more.
local function look_at(c, l, kind, most)
  if c.seen then return end
  local members = call('ZRANGEBYSCORE', c.key, 0, now, 'LIMIT', 0, most)
  c.seen = #members < most -- all
  if not members[1] then return end
  local keys, gone, stay = {}, {}, {}
  for i, m in ipairs(members) do keys[i] = c.of .. sub(m, 1, 16) end
  local texts = not kind.rest and call('MGET', unpack(keys))
  for i, m in ipairs(members) do
    local _, left = nil, 0
    if kind.rest then left = kind.rest(l, keys[i]) elseif texts[i] then _, left = kind.back(l, texts[i], 0) end
    if left > 0 then
      stay[#stay + 1], stay[#stay + 2] = now + left, m
    else
      gone[#gone + 1] = m
    end
  end
  if stay[1] then call('ZADD', c.key, unpack(stay)) end
  if gone[1] then c.n = c.n - call('ZREM', c.key, unpack(gone)) end
end

-- is_new reports whether nothing is known of a key; was is what ask said of a tally that is a text.
local function is_new(l, kind, tally, was)
  if l.keys == 0 then return false end
  if type(tally) == 'table' then return tally.sum == 0 end
  if not tally or tally == '' then return true end
  if was > now then return false end
  local _, left = kind.back(l, tally, 0)
  return left == 0
end

-- no_room returns how long it is until there is room for another key, or nil if there is.
local function no_room(l, kind, key, level)
  local c = crowd_of(key)
  local function full() return c.n * 2 ^ c.level >= l.keys end
  if not full() then return end
  if not c.sought then
    c.sought = true
    look_at(c, l, kind, SEEK)
    if not full() then return end
  end
  -- One that was given back has its place until it is looked at.
  if level >= c.level and call('ZSCORE', c.key, member(key, level)) then return end
  local first = call('ZRANGEBYSCORE', c.key, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  local wait = first and min(tonumber(first) - now, 100 * YEAR) or 0
  return wait > 0 and wait or SECOND -- more are looked at by then
end

-- thin keeps a part of the keys, those that are rarer.
local function thin(c)
  repeat
    c.level = c.level + 1
    local gone = {}
    for _, m in ipairs(call('ZRANGE', c.key, 0, -1)) do
      if (byte(m, 17) or 0) < c.level then gone[#gone + 1] = m end
    end
    for from = 1, #gone, 1000 do call('ZREM', c.key, unpack(gone, from, min(#gone, from + 999))) end
    c.n = call('ZCARD', c.key)
  until c.n <= SAMPLE
  call('ZADD', c.key, -c.level, '')
end

-- The zset outlives the keys: it is kept for so long from each new key on, and each time that one which is used comes
-- to end in another slot.
local function slot_of(l) return max(l.longest / 2, 10 * SECOND) end
local function keep_keys(l, name) call('PEXPIRE', name, lasting(l.longest + slot_of(l))) end

-- came counts a new key, which is as fresh after some time.
local function came(l, kind, key, level, left)
  local c = crowd_of(key)
  if level < c.level then return end
  look_at(c, l, kind, FEW)
  c.n = c.n + call('ZADD', c.key, now + left, member(key, level))
  if not c.kept then
    keep_keys(l, c.key)
    c.kept = true
  end
  if c.n > SAMPLE then thin(c) end
end

-- stays is for a key that is used, before anything is taken; was is as is_new has it.
local function stays(l, tally, key, was, left)
  if l.keys == 0 then return end
  if type(tally) == 'table' then was = tally.last or tally.at + l.second end
  local slot = slot_of(l)
  if floor(was / slot) < floor((now + left) / slot) then keep_keys(l, B .. 'W' .. sub(key, #B + 2, -18)) end
end

-- went counts a key no more.
local function went(l, key, level)
  if l.keys == 0 then return end
  local c = crowd_of(key)
  if level >= c.level then c.n = c.n - call('ZREM', c.key, member(key, level)) end
end
