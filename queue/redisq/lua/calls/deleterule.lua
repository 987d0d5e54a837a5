#!lua flags=allow-oom
-- needs: changelog, ruleusers, recheck
--
-- Delete a rule. Its tallies are left under a number that nothing refers to any more, and expire.
--
-- ARGV[2..4]  name, expected revision (-1: any), actor
-- Returns  {code, revision}: 0 deleted; 1 no such rule; 2 another revision; 3 queues ask it

begin()
local name, expect = ARGV[2], tonumber(ARGV[3])
local rev, nr = unpack(call('HMGET', ruleKey(name), 'rev', 'nr'))
rev = tonumber(rev)
if not rev then return { 1, 0 } end
if expect >= 0 and expect ~= rev then return { 2, rev } end
local group = groupOf(name)
if askers(group)[name] then return { 3, rev } end
checkRuleKeys()
checkChangeKeys('rule', name, ARGV[4])
call('DEL', ruleKey(name))
forgetKeys(nr or '')
call('HDEL', B, isField(name))
call('ZREM', B .. 'U', name)
if call('ZLEXCOUNT', B .. 'U', '[' .. group, '[' .. group) + call('ZLEXCOUNT', B .. 'U', '[' .. group .. '.',
  '(' .. group .. '/') == 0 then
  call('HDEL', B .. 'F', group)
end
logChange('rule', name, wall, ARGV[4], 'deleted', rev, rev, '', '', 0)
markDeleted('rule', name)
finish()
return { 0, rev }
