-- Rules whose fresh keys ask for room again, although their tallies stand: see rulekeys.lua.
--
-- The field recheck of B lists them: ' NR UNTIL NR UNTIL '.

-- recheckUntil returns until when a rule is on the list, or nil.
local function recheckUntil(list, nr) return tonumber(string.match(list, ' ' .. nr .. ' (%d+) ')) end

-- recheck puts a rule on the list; without an instant it removes the rule.
local function recheck(nr, till)
  local list = string.gsub(call('HGET', B, 'recheck') or ' ', ' ' .. nr .. ' %d+ ', ' ')
  if till then list = list .. string.format('%s %.0f ', nr, till) end
  if list == ' ' then call('HDEL', B, 'recheck') else call('HSET', B, 'recheck', list) end
end

-- forgetKeys forgets which keys a rule holds.
local function forgetKeys(nr)
  call('UNLINK', B .. 'W' .. nr)
  recheck(nr)
end
