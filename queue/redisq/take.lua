#!lua
-- Ask rules of one arithmetic.
--
-- ARGV[2]  number of rules; for each: u:<name>, what that must be (see lib.lua), bounds (see tally.lua), questions: one after the other, 1 byte of what is
--          asked (0 take, 1 peek, 2 give back, 3 forget, 4 nothing but whether the rule is the same), 2 of which bound, 16 of the key's digest, 4 of cost, 1 of the length of the place's name, which follows
-- Returns  for each rule: 1 if it is another by now, or gone, or the answers: 1 byte that is 1 if it is allowed,
--          4 of what remains, 8 of the time to try again after, 8 of that until all is as fresh
--
-- What is asked about a rule that is another by now is not asked of it.

-- one asks one question, which it is mostly: what many need is made later.
local function one(prefix, bounds, op, digest, cost, place)
  local s = { key = prefix .. digest, l = bound_at(bounds, 1), settled = false, changed = false }
  read(s.l, s, call('MGET', s.key, B .. '!')[1])
  local decision = answer(s, op, cost, place)
  if s.changed then
    wrote = true
    keep(write, s, ends(s.l, s))
  end
  return decision
end

local function ask_rule(is, bounds, questions)
  local prefix = B .. 'V' .. string.match(is, '^%d+') .. ':'
  local op, _, digest, cost, length = unpack_(QUESTION, questions)
  if #questions == QUESTION_BYTES + length and op ~= NOTHING then
    return one(prefix, bounds, op, digest, cost, sub(questions, QUESTION_BYTES + 1))
  end
  return more_asks(prefix, bounds, questions)
end

local out, last, had, offset = {}, nil, nil, nil
for i = 1, tonumber(ARGV[2]) do
  local at = 4 * i - 1
  local v = call('HMGET', B, ARGV[at], 'clk', 'off')
  if not last then
    last, had = tonumber(v[2]) or 0, tonumber(v[3]) or 0
    offset = clock(last, had)
  end
  out[i] = v[1] == ARGV[at + 1] and ask_rule(v[1], ARGV[at + 2], ARGV[at + 3]) or 1
end
-- Of its clock the partition need not know each microsecond: what a tally has ahead of now counts as of now.
if offset ~= had then
  call('HSET', B, 'clk', now, 'off', offset)
elseif wrote and now >= last + 1000 then
  call('HSET', B, 'clk', now)
end
return out
