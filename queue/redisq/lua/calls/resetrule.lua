#!lua flags=allow-oom
-- needs: changes, ruleusers, recheck
--
-- Forget all that was taken from a rule: what was is kept under a number that nothing refers to any more.
--
-- ARGV[2..3]  name, by whom
-- Returns  1, or 0 if there is no such rule

begin()
local v = call('HMGET', rule_key(ARGV[2]), 'rev', 'nr', 'salt')
local rev = tonumber(v[1])
if not rev then return 0 end
check_rule_keys()
check_change_keys('rule', ARGV[2])
local nr = next_number()
call('HSET', rule_key(ARGV[2]), 'nr', nr)
is_now(ARGV[2], nr, rev, v[3] or '0')
forget_keys(v[2] or '')
asked_anew(group_of(ARGV[2]))
log_change('rule', ARGV[2], now, ARGV[3], 'reset', rev, rev, '', '', 0)
finish()
return 1
