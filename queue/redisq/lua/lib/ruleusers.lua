-- Which queues ask which rules. Changes of rules, and of queues that name rules, share it.
--
-- A queue that names rules of its group has their names in ruleNames, separated by spaces.

local function ruleKey(name) return B .. 'U:' .. name end
local function isField(name) return 'u:' .. name end
local function groupOf(name) return string.match(name, '^[^.]*') end

-- checkRuleKeys raises unless the keys that all rules share have the right types.
local function checkRuleKeys()
  call('ZCARD', B .. 'U')
  call('HLEN', B .. 'F')
end

local function nextNumber() return call('HINCRBY', B, 'rseq', 1) end

-- knownBy adds the instant to the numbers by which Go recognizes a rule or a ruleset: a server that lost its last
-- writes gives the same numbers again.
local function knownBy(numbers) return string.format('%s %.0f', numbers, now) end

-- isNow sets by what a rule is recognized from now on; salt decides which of its keys are rare (see rulekeys.lua).
local function isNow(name, nr, rev, salt)
  call('HSET', B, isField(name), knownBy(nr .. ' ' .. rev .. ' ' .. salt))
end

-- askedAnew is called when the rules that queues of a group ask have changed.
local function askedAnew(group) call('HSET', B .. 'F', group, knownBy(nextNumber())) end

-- askers returns the queues that name each rule of a group, in order, and how many queues the group has.
local function askers(group)
  local queues = call('ZRANGEBYLEX', B .. 'N', '[' .. group .. '.', '(' .. group .. '/')
  table.insert(queues, 1, group)
  local numbers, by = call('HMGET', B .. 'n', unpack(queues)), {}
  for i, queue in ipairs(queues) do
    -- A queue with a broken key asks no rules.
    local names = numbers[i] and redis.pcall('HGET', B .. 'q' .. numbers[i], 'ruleNames')
    for name in string.gmatch(type(names) == 'string' and names or '', '%S+') do
      by[name] = by[name] or {}
      table.insert(by[name], queue)
    end
  end
  return by, #queues
end
