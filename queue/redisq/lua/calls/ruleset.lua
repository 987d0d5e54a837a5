#!lua flags=allow-oom
-- needs: ruleusers
--
-- Read the rules that a queue asks.
--
-- ARGV[2]  name
-- Returns  0 if there is no such queue, or {number of the ruleset, or '', names from its parent, its own names, rules}:
--          for each name, in any order, {name, revision, is, rule}

begin()
local nr = numberOf(ARGV[2])
if not nr then return 0 end
local group, parent = groupOf(ARGV[2]), nil
if group ~= ARGV[2] then
  local over = numberOf(group)
  parent = over and call('HGET', B .. 'q' .. over, 'ruleNames')
end
local byParent, own, rules = parent or '', call('HGET', B .. 'q' .. nr, 'ruleNames') or '', {}
for name in string.gmatch(byParent .. ' ' .. own, '%S+') do
  local rev, rule = unpack(call('HMGET', ruleKey(name), 'rev', 'rule'))
  rules[#rules + 1] = { name, tonumber(rev), call('HGET', B, isField(name)) or '', rule }
end
return { byParent .. own ~= '' and call('HGET', B .. 'F', group) or '', byParent, own, rules }
