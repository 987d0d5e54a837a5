#!lua flags=allow-oom
-- needs: changelog, ruleusers, recheck
--
-- Forget all that was taken from a rule: what was is kept under a number that nothing refers to any more.
--
-- ARGV[2..3]  name, by whom
-- Returns  1, or 0 if there is no such rule

begin()
local v = call('HMGET', ruleKey(ARGV[2]), 'rev', 'nr', 'salt')
local rev = tonumber(v[1])
if not rev then return 0 end
checkRuleKeys()
checkChangeKeys('rule', ARGV[2], ARGV[3])
local nr = nextNumber()
call('HSET', ruleKey(ARGV[2]), 'nr', nr)
isNow(ARGV[2], nr, rev, v[3] or '0')
forgetKeys(v[2] or '')
askedAnew(groupOf(ARGV[2]))
logChange('rule', ARGV[2], wall, ARGV[3], 'reset', rev, rev, '', '', 0)
finish()
return 1
