-- Rules whose fresh keys ask for room again, although their tallies stand: see rulekeys.lua.
--
-- B has them in the field recheck: ' NR UNTIL NR UNTIL '.

-- recheckUntil returns until when at least a rule is on such a list, or nil.
local function recheckUntil(list, nr) return tonumber(string.match(list, ' ' .. nr .. ' (%d+) ')) end

-- recheck puts a rule on the list; without an instant it takes it off.
local function recheck(nr, till)
  local list = string.gsub(call('HGET', B, 'recheck') or ' ', ' ' .. nr .. ' %d+ ', ' ')
  if till then list = list .. string.format('%s %.0f ', nr, till) end
  if list == ' ' then call('HDEL', B, 'recheck') else call('HSET', B, 'recheck', list) end
end

-- forgetKeys forgets what keys a rule holds.
local function forgetKeys(nr)
  call('UNLINK', B .. 'W' .. nr)
  recheck(nr)
end
