-- needs: auditwrite
--
-- Ask a rule, and write an audit entry of what is given back or forgotten by that. answers() is take.lua, for one rule.
--
-- ARGV  as of take.lua, and behind it: number of questions, actor, name of the rule, what
-- Returns  as take.lua

auditEnds(budgetOf(ARGV[10 + ARGV[7]])) -- raises if no entry could be written
local out = answers()
if out[1] ~= 1 then
  local asked, by, name, what = unpack(ARGV, 9 + ARGV[7]) -- they stand behind the keys and the questions
  local n = tonumber(asked)
  for at = 1, #out[1], 21 do -- the bytes of a decision
    if string.byte(out[1], at) == 2 then n = n - 1 end -- the question is asked again
  end
  if n > 0 then
    writeAudit({ at = wall, by = by, of = 'rule', name = name, what = what,
      detail = string.format('%.0f of its keys', n) })
  end
end
return out
