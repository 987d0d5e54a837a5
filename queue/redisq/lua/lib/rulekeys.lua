-- needs: knownkeys
-- gives: isNew, noRoom, came, keepKeys, went, corrected
--
-- How many keys a rule holds, for takes, and for appends to queues that ask rules. It is made when a call meets a key
-- that may be new.
--
-- B WNR is a zset with an entry for each key that the rule holds: the 16 bytes of its digest and one of its rarity. The
-- score is when the key was expected to be fresh again. Using a key does not move its entry, so the score may be too
-- early. lookAt checks entries whose score has passed. It moves the entries of keys that are still in use, and removes
-- those with an expired tally. A tally that is a text outlives its recovery by up to a SPAN (see keep in tally.lua). It
-- is removed together with its entry, but only if the rule needs the room.
--
-- So a key whose tally stands has its entry, even if the tally is fresh by now, and using it costs no command here.
-- Only a key without a tally is new. Two things break that rule. After a change of the rule more keys may be held than
-- is allowed, and tallies end at other times than the scores say. And most keys have no entry in a sample, so when one
-- is full they must not return unseen. Such a rule is on the list of recheck.lua: its fresh keys count as new ones.
--
-- There are at most SAMPLE entries. Before there would be more, the zset becomes a sample: the entry with the empty
-- member has a level n as -n, and only keys of rarity n or more have entries, which are one in 2^n. Keys cannot be
-- chosen by their rarity without the rule's salt. A count of n entries is exact to one part in the root of n. The level
-- never falls before the sample is empty, since the keys that it left out are not known.
--
-- l.keys is how many keys a rule may hold, 0 if the key has an override and does not count; kind has the functions of
-- the arithmetic.

local SAMPLE = 8192
local SEEK = 256 -- entries that a call looks at to find room
local FEW = 8 -- entries that each new key looks at
local SELDOM = 4 -- a sample that is far from full is counted when a key is rarer by so much: one in 16

local crowds = {} -- what is known of each rule's zset
local removed = {} -- keys whose tallies lookAt has removed: those in hand count for nothing
local budget = SEEK -- what is left of that
local numbers, numbered -- the index of each key in hand, and for which call

local function crowdOf(key)
  local rule = sub(key, 1, -18)
  local c = crowds[rule]
  if c then return c end
  local nr = sub(rule, #B + 2)
  c = { nr = nr, key = B .. 'W' .. nr, of = rule .. ':', level = 0 }
  local first = redis.pcall('ZRANGE', c.key, 0, FEW, 'WITHSCORES')
  if first.err then -- another program's key
    call('UNLINK', c.key)
    first = {}
  end
  if first[1] == '' then
    c.level = -tonumber(first[2])
    if #first == 2 then
      call('UNLINK', c.key)
      c.level = 0
    end
  end
  c.due = #first == 2 * FEW + 2 and tonumber(first[#first]) <= now - SPAN
  c.recheck = list and recheckUntil(list, nr)
  crowds[rule] = c
  return c
end

-- leftInHand returns the time until a key is fresh, if this call has changed its tally.
local function leftInHand(key)
  if numbered ~= handLeft then
    numbers, numbered = {}, handLeft
    for i = 1, handCount do numbers[ARGV[handFirst + i - 1]] = i end
  end
  return numbers[key] and handLeft[numbers[key]]
end

local function member(key, level) return sub(key, -16) .. string.char(level) end

local function count(c) c.n = call('ZCARD', c.key) - (c.level > 0 and 1 or 0) end

local function isFull(c, l)
  if l.keys > 2 * SAMPLE * 2 ^ c.level then return false end -- the sample is thinned long before
  if not c.n then count(c) end
  return c.n * 2 ^ c.level >= l.keys
end

-- lookAt checks some entries whose score has passed by an instant, and returns how many. With forRoom it also removes
-- fresh tallies that stand.
local function lookAt(c, l, kind, by, most, forRoom)
  local members = call('ZRANGEBYSCORE', c.key, 0, by, 'LIMIT', 0, most)
  c.due = #members == most
  if not members[1] then return 0 end
  local keys, gone, stay, dead = {}, {}, {}, {}
  for i, m in ipairs(members) do keys[i] = c.of .. sub(m, 1, 16) end
  local texts = not kind.rest and call('MGET', unpack(keys))
  for i, m in ipairs(members) do
    local key, _, left = keys[i], nil, 0
    if kind.rest then
      left = kind.rest(l, key)
    elseif leftInHand(key) then
      left = leftInHand(key)
    elseif texts[i] then
      _, left = kind.back(l, texts[i], 0)
    end
    local stands = texts and texts[i]
    if left > 0 or stands and not forRoom then
      stay[#stay + 1], stay[#stay + 2] = now + left, m
    else
      gone[#gone + 1] = m
      if stands then
        dead[#dead + 1] = key
        removed[key], doubt = true, true
      end
    end
  end
  if stay[1] then call('ZADD', c.key, unpack(stay)) end
  if dead[1] then call('UNLINK', unpack(dead)) end
  local n = gone[1] and call('ZREM', c.key, unpack(gone)) or 0
  if c.n then c.n = c.n - n end
  return #members
end

-- isNew reports whether a key that counts must ask for room. It need not be called for a tally that is not fresh or,
-- without doubt, stands.
local function isNew(l, kind, key, tally)
  if type(tally) == 'table' or not tally or tally == '' or removed[key] then return true end
  if not list or not crowdOf(key).recheck then return false end
  local _, left = kind.back(l, tally, 0)
  return left == 0
end

-- noRoom returns the time until there is room for another key, or nil if there is.
local function noRoom(l, kind, key, level)
  local c = crowdOf(key)
  local full = isFull(c, l)
  if full and not c.sought then
    c.sought = true
    budget = budget - lookAt(c, l, kind, now, max(FEW, budget), true)
    full = isFull(c, l)
  end
  if not full then
    if c.recheck and c.recheck <= now then
      recheck(c.nr)
      c.recheck = nil
    end
    return
  end
  if c.level > 0 and not c.recheck then
    recheck(c.nr, now)
    c.recheck, list, doubt = now, list or ' ', true
  end
  -- A key with an entry holds its place until it is looked at.
  if level >= c.level and call('ZSCORE', c.key, member(key, level)) then return end
  local first = call('ZRANGEBYSCORE', c.key, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  local wait = first and min(tonumber(first) - now, 100 * YEAR) or 0
  return wait > 0 and wait or SECOND -- more are looked at by then
end

-- thin keeps only the entries of rarer keys.
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

-- keepKeys makes the zset outlive the tallies. It is called for each new key, and each time that a use moves the end of
-- a key into another slot. A debt may last for longer: then it gets the time until the key is fresh.
local function keepKeys(l, key, left)
  local nr = sub(key, #B + 2, -18)
  local till = list and recheckUntil(list, nr) or 0
  local lasts = lasting(max(2 * l.slot, till - now, left or 0) + l.slot + SPAN)
  if not l.debts then
    call('PEXPIRE', B .. 'W' .. nr, lasts)
  elseif call('PEXPIRE', B .. 'W' .. nr, lasts, 'NX') == 0 then
    call('PEXPIRE', B .. 'W' .. nr, lasts, 'GT')
  end
end

-- came enters a new key, which is fresh after some time.
local function came(l, kind, key, level, left)
  local c = crowdOf(key)
  if level >= c.level then
    if c.due then lookAt(c, l, kind, now - SPAN, FEW) end
    local n = call('ZADD', c.key, now + left, member(key, level))
    if not c.kept then
      keepKeys(l, key)
      c.kept = true
    end
    if c.n then
      c.n = c.n + n
    elseif level >= c.level + SELDOM then
      count(c)
    end
    if c.n and c.n > SAMPLE then thin(c) end
  end
  removed[key] = nil
end

-- went updates the entry of a key after something was given back. The key is fresh after some time, or now.
local function went(key, level, left)
  local c = crowdOf(key)
  if level < c.level then return end
  if left > 0 then
    call('ZADD', c.key, 'XX', now + left, member(key, level))
  else
    local n = call('ZREM', c.key, member(key, level))
    if c.n then c.n = c.n - n end
  end
end

-- corrected updates or enters the entry of a key after the cost of a take was corrected: that needs no room.
local function corrected(l, kind, key, level, left, before)
  if left > 0 and (not before or before == '' or removed[key]) then
    came(l, kind, key, level, left)
  else
    went(key, level, left)
  end
  if left > 2 * l.slot then keepKeys(l, key, left) end
end
