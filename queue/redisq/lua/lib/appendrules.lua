-- needs: tally, rulekeys, algorithms
-- gives: ruling, unaskable, judge, charge, leave, writeAll, decided, unsay
--
-- The rules that decide what comes in, for append.lua. They are made for a queue that asks rules, behind tally.lua.

local KEY, KEY_BYTES, ASK_BYTES = '>I2c1B', 4, 2

-- For each key that the jobs of a queue ask about: its bound, the action of its rule, how rare it is (see
-- rulekeys.lua), its tally, and when that is fresh again. left has the time until a changed tally is fresh again.
local bounds, actions, levels, tallies, fresh, left, firstKey = {}, {}, {}, {}, {}, {}, 0
local said = {} -- the decisions of each job
-- Of the job that was judged last: its keys and their answers. news is true for a new key, else when its tally is
-- fresh again.
local asked, allows, keeps, resets, news, count = {}, {}, {}, {}, {}, 0

-- ruling reads the tallies of the keys that a queue's jobs ask about. It takes the bounds, and of each key the bound,
-- the action and how rare it is; the keys are the arguments from first on. A job is known by the index of its first
-- argument; the third argument of a job has its asks.
local function ruling(boundsText, of, first)
  local known, keys = boundsOf(boundsText, byLetter), {}
  list = M.recheck
  bounds, actions, levels, tallies, fresh, left, said, firstKey = {}, {}, {}, {}, {}, {}, {}, first
  for n = 1, #of / KEY_BYTES do
    local bound, action, level = unpackStruct(KEY, of, KEY_BYTES * (n - 1) + 1)
    bounds[n], actions[n], levels[n] = known[bound], action, level
    keys[n] = known[bound].kind.read and B .. '!' or ARGV[first + n - 1]
  end
  for from = 1, #keys, 1000 do
    local texts = call('MGET', B .. '!', unpack(keys, from, min(#keys, from + 999)))
    for k = 2, #texts do tallies[from + k - 2] = texts[k] end
  end
  for n, l in ipairs(bounds) do
    if l.kind.read then tallies[n] = l.kind.read(l, ARGV[first + n - 1]) end
  end
  handLeft, handFirst, handCount, doubt = left, first, #bounds, doubt or list
end

local function unaskable(i) return ARGV[i + 2] == '!' end

-- judge asks the rules of a job. If the job is refused it returns how long to wait, and whether all rules that refuse
-- it would defer it.
local function judge(i, cost)
  local text, decisions, wait, defers = ARGV[i + 2], '', nil, true
  count = #text / ASK_BYTES
  for k = 1, count do
    local high, low = byte(text, 2 * k - 1, 2 * k)
    local n = high * 256 + low
    local l = bounds[n]
    local allowed, remaining, retry, reset, kept, was = l.kind.ask(l, tallies[n], cost)
    local answer, till = allowed and 1 or 0, was or endsAt(l, tallies[n])
    if allowed and (till == 0 or doubt and till <= now) and l.keys > 0 then -- else the key is known
      local keys, key = withRulekeys(), ARGV[firstKey + n - 1]
      local new = keys.isNew(l, l.kind, key, tallies[n])
      local full = new and keys.noRoom(l, l.kind, key, levels[n])
      if full then allowed, answer, remaining, retry, reset, kept = false, 3, 0, full, 0, nil end
      till = new or till
    end
    asked[k], allows[k], keeps[k], resets[k], news[k] = n, allowed, kept, reset, till
    fresh[n] = fresh[n] or was
    decisions = decisions .. pack(DECISION, answer, remaining, retry, reset)
    if not allowed and actions[n] ~= 's' then
      wait, defers = max(wait or 0, retry), defers and actions[n] == 'd'
    end
  end
  said[i] = decisions
  return wait, defers
end

-- put keeps the tally that the answer to the k-th ask returned.
local function put(k, cost)
  local n = asked[k]
  local l = bounds[n]
  local key = ARGV[firstKey + n - 1]
  if allows[k] and news[k] == true then
    rulekeys.came(l, l.kind, key, levels[n], resets[k])
    fresh[n] = 0 -- the key counts as new, and gets a new expiry
  elseif allows[k] and l.keys > 0 then
    local ends = now + resets[k]
    if news[k] < ends - ends % l.slot then withRulekeys().keepKeys(l, key) end
  end
  if allows[k] and l.kind.take then l.kind.take(l, tallies[n], cost) end
  tallies[n], left[n] = keeps[k], resets[k]
end

-- charge takes from all rules that allowed the job judged last.
local function charge(cost)
  for k = 1, count do
    if keeps[k] then put(k, cost) end
  end
end

-- leave keeps the tallies that a refused ask has corrected because they were ahead of now (see ask in tally.lua).
local function leave()
  for k = 1, count do
    if keeps[k] and not allows[k] then put(k) end
  end
end

local function writeAll()
  for n, time in pairs(left) do
    local write = bounds[n].kind.write
    if write then write(tallies[n]) else keep(ARGV[firstKey + n - 1], tallies[n], time, fresh[n]) end
  end
end

-- decided returns the decisions of the rules that a job asked.
local function decided(i) return said[i] or '' end

-- unsay forgets these decisions, because a job that is decided on again may not be asked again.
local function unsay(i) said[i] = nil end
