-- Shared by what changes rules, or queues that name them: who asks which.
--
-- A queue that names rules of its group has their names in ruled, with spaces between them.

local function ruleKey(name) return B .. 'U:' .. name end
local function isField(name) return 'u:' .. name end
local function groupOf(name) return string.match(name, '^[^.]*') end

-- checkRuleKeys raises unless the keys that all rules share are of the types that they must be.
local function checkRuleKeys()
  call('ZCARD', B .. 'U')
  call('HLEN', B .. 'F')
end

local function nextNumber() return call('HINCRBY', B, 'rseq', 1) end

-- A server that lost its last writes gives the same numbers again: so the instant goes with what others know a rule, or
-- a ruleset, by.
local function knownBy(numbers) return string.format('%s %.0f', numbers, now) end

-- isNow is by what a rule is known from now on; salt decides which of its keys are rare (see rulekeys.lua).
local function isNow(name, nr, rev, salt)
  call('HSET', B, isField(name), knownBy(nr .. ' ' .. rev .. ' ' .. salt))
end

-- askedAnew is for a group whose queues ask their jobs something else from now on.
local function askedAnew(group) call('HSET', B .. 'F', group, knownBy(nextNumber())) end

-- askers returns, for each rule of a group that is asked, the queues that name it, in order; and how many queues there
-- are.
local function askers(group)
  local queues = call('ZRANGEBYLEX', B .. 'N', '[' .. group .. '.', '(' .. group .. '/')
  table.insert(queues, 1, group)
  local numbers, by = call('HMGET', B .. 'n', unpack(queues)), {}
  for i, queue in ipairs(queues) do
    -- A queue that somebody broke asks nothing.
    local names = numbers[i] and redis.pcall('HGET', B .. 'q' .. numbers[i], 'ruleNames')
    for name in string.gmatch(type(names) == 'string' and names or '', '%S+') do
      by[name] = by[name] or {}
      table.insert(by[name], queue)
    end
  end
  return by, #queues
end
