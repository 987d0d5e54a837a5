#!lua
-- needs: revision, changelog, ruleusers, notforqueues, recheck
--
-- Create a rule or change it.
--
-- ARGV[2..14]  name, rule (canonical JSON), algorithm, expected revision (0: must not exist, -1: any), stamp of this
--              call, the rule as versions keep it, actor, digests of the keys with overrides, the longest that a key
--              can take until it is fresh, in us; the revision that the caller knows, or -1, and the keys that have
--              overrides there and not here, 16 bytes of digest and 1 of rarity each; digest of the showable text of
--              what is kept, and that text unless it is the same
-- Returns  {revision, created, changed, code}: 1 it is at another revision; 2 queues ask it, and it would be of
--          concurrency; 3 the caller knows another revision

begin()

-- spare removes the entries of keys that have overrides from now on.
local function spare(nr, digests)
  local key, is, gone = B .. 'W' .. nr, {}, {}
  for at = 1, #digests, 16 do is[sub(digests, at, at + 15)] = true end
  local members = redis.pcall('ZRANGE', key, 0, -1)
  for _, m in ipairs(members.err and {} or members) do
    if is[sub(m, 1, 16)] then gone[#gone + 1] = m end
  end
  if gone[1] then call('ZREM', key, unpack(gone)) end
end

-- countAgain adds entries for keys that no longer have overrides.
local function countAgain(nr, keys)
  local key = B .. 'W' .. nr
  local first = redis.pcall('ZRANGE', key, '0', '0', 'WITHSCORES')
  if first.err then return end -- the next new key corrects that
  local level = first[1] == '' and -tonumber(first[2]) or 0
  for at = 1, #keys, 17 do
    if byte(keys, at + 16) >= level and call('EXISTS', B .. 'V' .. nr .. ':' .. sub(keys, at, at + 15)) == 1 then
      call('ZADD', key, now, sub(keys, at, at + 16))
    end
  end
end

local name, rule, algorithm, expect = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local stamp, longest = ARGV[6], tonumber(ARGV[10])
local rev, oldRule, oldStamp, made, oldAlgorithm, nr, salt, longestYet = unpack(call('HMGET', ruleKey(name), 'rev',
  'rule', 'stamp', 'made', 'algorithm', 'nr', 'salt', 'longest'))
local createdNow = made == rev
rev, salt, longestYet = tonumber(rev) or 0, salt or stamp, tonumber(longestYet) or 0
-- This very call, repeated after a lost reply.
if oldStamp == stamp then return { rev, createdNow and 1 or 0, 1, 0 } end
if expect >= 0 and expect ~= rev then return { rev, 0, 0, 1 } end
if oldRule == rule then return { rev, 0, 0, 0 } end
if NOT_FOR_QUEUES[algorithm] and algorithm ~= oldAlgorithm and askers(groupOf(name))[name] then
  return { rev, 0, 0, 2 }
end
if tonumber(ARGV[11]) >= 0 and tonumber(ARGV[11]) ~= rev then return { rev, 0, 0, 3 } end
checkRuleKeys()
checkChangeKeys('rule', name, ARGV[8])
local created, was = rev == 0 and 1 or 0, rev
rev = nextRevision()
if algorithm ~= oldAlgorithm then
  if nr then forgetKeys(nr) end
  nr = nextNumber()
else
  if ARGV[9] ~= '' then spare(nr, ARGV[9]) end
  countAgain(nr, ARGV[12])
  -- Its keys end at other times from now on, and may be more than allowed: see rulekeys.lua.
  if call('EXISTS', B .. 'W' .. nr) == 1 then
    recheck(nr, now + longestYet + 10 * SECOND)
    call('PEXPIRE', B .. 'W' .. nr, 3600000 + ceil((longestYet + 2 * longest) / 1000))
  end
end
call('HSET', ruleKey(name), 'rule', rule, 'rev', rev, 'algorithm', algorithm, 'nr', nr, 'stamp', stamp, 'salt', salt,
  'longest', string.format('%.0f', longest))
isNow(name, nr, rev, salt)
if created == 1 then call('HSET', ruleKey(name), 'made', rev) end
call('ZADD', B .. 'U', 0, name)
askedAnew(groupOf(name))
if created == 1 then unmarkDeleted('rule', { name }) end
keepVersion('rule', name, rev, packText(ARGV[13], ARGV[14], ARGV[7]))
logChange('rule', name, wall, ARGV[8], created == 1 and 'created' or 'changed', rev, was, '', '', 0)
finish()
return { rev, created, 1, 0 }
