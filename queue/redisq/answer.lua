-- Of take alone, behind tally.lua and one arithmetic: an answer.

local QUESTION, QUESTION_BYTES, DECISION = '>BI2c16I4B', 24, '>BI4I8I8'
local TAKE, BACK, ANEW, NOTHING = 0, 2, 3, 4
local wrote = false

local function answer(s, op, cost, place)
  local l = s.l
  if s.settled and (op == TAKE or op == BACK) then s.changed = true end
  if op == BACK or op == ANEW then
    if op == BACK then back(l, s, cost, place) else anew(s) end
    s.changed, cost, place = true, 1, ''
  end
  local allowed, remaining, retry, reset, us, rest = ask(l, s, cost, place)
  if not allowed then return pack(DECISION, 0, remaining, retry, reset) end
  if op == TAKE then
    take(l, s, cost, place, us, rest)
    s.changed = true
  end
  return pack(DECISION, 1, remaining, retry, reset)
end
