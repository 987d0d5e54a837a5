-- Of append alone, made where a queue asks its jobs, behind tally.lua: the rules that decide what comes in (docs/engine.md, Rules).

local ASK, ASK_BYTES = '>BI2c16', 19

local prefixes, actions, bounds -- of the queue's rules
local held, left, said = {}, {}, {} -- key -> tally; of what changed, the time until it is as fresh; job -> its decisions
local asked, allows, keeps, resets, of, count = {}, {}, {}, {}, {}, 0 -- of the job that was judged last: keys, and what was answered, by which bounds

-- ruling reads what a queue's jobs ask, and what was taken under the keys that they ask about: numbers and actions of the rules, bounds, and of
-- each job its asks, the third of its arguments. A job is known by the place of its first.
local function ruling(rules_text, bounds_text, first, jobs)
  prefixes, actions, bounds = {}, {}, bounds_of(bounds_text, by_letter)
  held, left, said = {}, {}, {}
  for nr, action in string.gmatch(rules_text, '(%d+)(%a)') do
    prefixes[#prefixes + 1], actions[#actions + 1] = B .. 'V' .. nr .. ':', action
  end
  local keys = {}
  for i = first, first + 3 * jobs - 1, 3 do
    local text = ARGV[i + 2]
    for at = 1, text == '!' and 0 or #text, ASK_BYTES do
      local rule, bound, digest = unpack_(ASK, text, at)
      local key, l = prefixes[rule] .. digest, bounds[bound]
      if held[key] == nil then
        held[key] = false
        if l.kind.read then held[key] = l.kind.read(l, key) else keys[#keys + 1] = key end
      end
    end
  end
  for i = 1, #keys, 1000 do
    local texts = call('MGET', B .. '!', unpack(keys, i, min(#keys, i + 999)))
    for k = 2, #texts do held[keys[i + k - 2]] = texts[k] end
  end
end

local function unaskable(i) return ARGV[i + 2] == '!' end

-- judge asks all that a job asks. If it is refused it returns how long to wait, and whether all who refuse it would have it put aside.
local function judge(i, cost)
  local text, decisions, wait, defers = ARGV[i + 2], '', nil, true
  count = #text / ASK_BYTES
  for k = 1, count do
    local rule, bound, digest = unpack_(ASK, text, (k - 1) * ASK_BYTES + 1)
    local key, l = prefixes[rule] .. digest, bounds[bound]
    local allowed, remaining, retry, reset, kept = l.kind.ask(l, held[key], cost)
    asked[k], allows[k], keeps[k], resets[k], of[k] = key, allowed, kept, reset, l
    decisions = decisions .. pack(DECISION, allowed and 1 or 0, remaining, retry, reset)
    if not allowed and actions[rule] ~= 's' then
      wait, defers = max(wait or 0, retry), defers and actions[rule] == 'd'
    end
  end
  said[i] = decisions
  return wait, defers
end

-- put keeps what the k-th that was asked would have kept.
local function put(k, cost)
  local key, kind = asked[k], of[k].kind
  if allows[k] and kind.take then kind.take(of[k], held[key], cost) end
  held[key], left[key] = keeps[k], resets[k]
end

-- charge takes from all that allowed the job that was judged last.
local function charge(cost)
  for k = 1, count do
    if keeps[k] then put(k, cost) end
  end
end

-- leave keeps what its refusal leaves: what is ahead of now drains from then on.
local function leave()
  for k = 1, count do
    if keeps[k] and not allows[k] then put(k) end
  end
end

local function write_all()
  for key, time in pairs(left) do
    local tally = held[key]
    if type(tally) == 'table' then tally.l.kind.write(tally) else keep(key, tally, time) end
  end
end

-- decided is what a job was answered by those that it asked.
local function decided(i) return said[i] or '' end

-- unsay forgets that: a job that is asked again may not come so far.
local function unsay(i) said[i] = nil end
