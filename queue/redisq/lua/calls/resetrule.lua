#!lua flags=allow-oom
-- needs: changelog, ruleusers, recheck
--
-- Reset a rule: forget all of its tallies, which are left under a number that nothing refers to any more.
--
-- ARGV[2..3]  name, actor
-- Returns  1, or 0 if there is no such rule

begin()
local rev, oldNumber, salt = unpack(call('HMGET', ruleKey(ARGV[2]), 'rev', 'nr', 'salt'))
rev = tonumber(rev)
if not rev then return 0 end
checkRuleKeys()
checkChangeKeys('rule', ARGV[2], ARGV[3])
local nr = nextNumber()
call('HSET', ruleKey(ARGV[2]), 'nr', nr)
isNow(ARGV[2], nr, rev, salt or '0')
forgetKeys(oldNumber or '')
askedAnew(groupOf(ARGV[2]))
logChange('rule', ARGV[2], wall, ARGV[3], 'reset', rev, rev, '', '', 0)
finish()
return 1
