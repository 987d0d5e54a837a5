#!lua
-- Ask rules.
--
-- ARGV[2]  number of rules; for each: name, is (see lib.lua), bounds (see tally.lua), questions: one after the other, 1 byte of what is
--          asked (0 take, 1 peek, 2 give back, 3 forget, 4 nothing but whether the rule is the same), 2 of which bound, 16 of the key's digest, 4 of cost, 1 of the length of the place's name, which follows
-- Returns  for each rule: 1 if it is another by now, or gone, the text of an error, or the answers: 1 byte that is 1 if it is allowed,
--          4 of what remains, 8 of the time to try again after, 8 of that until all is as fresh
--
-- What is asked about a rule that is another by now is not asked of it. Redis refuses the script when it is out of memory, but if
-- it only gives back and looks.

whole()
local v = call('HMGET', B, 'schema', 'clk', 'off')
if not v[1] then raise('NOSTORE', B .. ' holds no penstock store') end
local had = tonumber(v[3]) or 0
local offset = clock(tonumber(v[2]) or 0, had)

local QUESTION, QUESTION_BYTES = '>BI2c16I4B', 24
local TAKE, BACK, ANEW, NOTHING = 0, 2, 3, 4
local wrote = false

local function answer(s, op, cost, place)
  if op == NOTHING then return string.rep('\0', 21) end
  local l, kind = s.l, s.l.kind
  if s.settled and (op == TAKE or op == BACK) then
    s.changed, s.settled = true, false
    if kind.settle then kind.settle(l, s) end
  end
  if op == BACK or op == ANEW then
    if op == BACK then kind.back(l, s, cost, place) else kind.anew(s) end
    s.changed, cost, place = true, 1, ''
  end
  local allowed, remaining, retry, reset = kind.ask(l, s, cost, place)
  if op == TAKE and allowed then
    kind.take(l, s, cost, place)
    s.changed = true
  end
  return pack('>BI4I8I8', allowed and 1 or 0, remaining, retry, reset)
end

local function ask_rule(name, is, bounds, questions)
  local found = redis.pcall('HGET', B .. 'U:' .. name, 'is')
  if found ~= is then return found and found.err or 1 end
  local prefix = B .. 'V' .. string.match(is, '^%d+') .. ':'
  local by_key, tallies, asked, at = {}, {}, {}, 1
  bounds = bounds_of(bounds)
  while at <= #questions do
    local op, bound, digest, cost, length = unpack_(QUESTION, questions, at)
    at = at + QUESTION_BYTES
    local s = by_key[digest]
    if not s and op ~= NOTHING then
      s = { key = prefix .. digest, l = bounds[bound] }
      by_key[digest] = s
      tallies[#tallies + 1] = s
    end
    asked[#asked + 1] = { s or 0, op, cost, sub(questions, at, at + length - 1) }
    at = at + length
  end
  read_all(tallies)
  for i, q in ipairs(asked) do asked[i] = answer(unpack(q)) end
  if write_all(tallies) then wrote = true end
  return table.concat(asked)
end

local out = {}
for i = 0, tonumber(ARGV[2]) - 1 do
  local at = 3 + 4 * i
  out[i + 1] = ask_rule(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
end
if offset ~= had then
  call('HSET', B, 'clk', now, 'off', offset)
elseif wrote then
  call('HSET', B, 'clk', now)
end
return out
