#!lua flags=allow-oom
-- needs: ruleusers
--
-- What a queue asks its jobs.
--
-- ARGV[2]  name
-- Returns  0 if there is no such queue, or {number by which that is known, or '', names that its parent gives, its own,
--          rules}: of each name, in any order, {name, revision, is, rule}

begin()
local nr = numberOf(ARGV[2])
if not nr then return 0 end
local group, parent = groupOf(ARGV[2]), nil
if group ~= ARGV[2] then
  local over = numberOf(group)
  parent = over and call('HGET', B .. 'q' .. over, 'ruled')
end
local by_parent, own = parent or '', call('HGET', B .. 'q' .. nr, 'ruled') or ''
local out = { by_parent .. own ~= '' and call('HGET', B .. 'F', group) or '', by_parent, own, {} }
for name in string.gmatch(out[2] .. ' ' .. out[3], '%S+') do
  local v = call('HMGET', ruleKey(name), 'rev', 'rule')
  table.insert(out[4], { name, tonumber(v[1]), call('HGET', B, isField(name)) or '', v[2] })
end
return out
