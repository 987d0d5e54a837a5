#!lua
-- Ask rules of one arithmetic.
--
-- ARGV[2]  number of rules; for each: u:<name>, what that must be (see lib.lua), bounds (see tally.lua), questions: one after the other, 1 byte of what is
--          asked (0 take, 1 peek, 2 give back, 3 forget, 4 nothing but whether the rule is the same), 2 of which bound, 16 of the key's digest, 4 of cost, 1 of the length of the place's name, which follows
-- Returns  for each rule: 1 if it is another by now, or gone, or the answers: 1 byte that is 1 if it is allowed,
--          4 of what remains, 8 of the time to try again after, 8 of that until all is as fresh
--
-- What is asked about a rule that is another by now is not asked of it. Behind a question that had the script look at much, no other is answered: that
-- one byte is 2 of it, and it is to be asked again.

local QUESTION, QUESTION_BYTES = '>BI2c16I4B', 24
local TAKE, BACK, ANEW, NOTHING = 0, 2, 3, 4
local MOST_LOOKED = 10000 -- some 10 ms; see concurrency.lua
local wrote

local out, last, had, offset = {}, nil, nil, nil
for nr = 1, tonumber(ARGV[2]) do
  local arg = 4 * nr - 1
  local v = call('HMGET', B, ARGV[arg], 'clk', 'off')
  if not last then
    last, had = tonumber(v[2]) or 0, tonumber(v[3]) or 0
    offset = clock(last, had)
  end
  if v[1] == ARGV[arg + 1] then
    local prefix, bounds, questions = B .. 'V' .. string.match(v[1], '^%d+') .. ':', bounds_of(ARGV[arg + 2]), ARGV[arg + 3]
    local texts, at = {}, 1
    if not read then
      local keys = { 'MGET', B .. '!' }
      while at <= #questions do
        local _, _, digest, _, length = unpack_(QUESTION, questions, at)
        keys[#keys + 1] = prefix .. digest
        at = at + QUESTION_BYTES + length
      end
      texts = call(unpack(keys))
    end
    local answers, tallies, left, i = {}, {}, {}, 0 -- those that this call has in hand, by digest; of what changed, the time until it is as fresh
    at = 1
    while at <= #questions do
      local op, bound, digest, cost, length = unpack_(QUESTION, questions, at)
      local l, tally, place = bounds[bound], tallies[digest], ''
      at, i = at + QUESTION_BYTES + length, i + 1
      if length > 0 then place = sub(questions, at - length, at - 1) end
      if op == NOTHING then
        answers[i] = pack(DECISION, 0, 0, 0, 0)
      elseif looked and looked > MOST_LOOKED then
        answers[i] = pack(DECISION, 2, 0, 0, 0)
      else
        if tally == nil and read then
          tally = read(l, prefix .. digest)
          tallies[digest] = tally
        elseif tally == nil then
          tally = texts[i + 1]
        end
        if op == BACK or op == ANEW then
          if op == BACK then tally, left[digest] = back(l, tally, cost, place) else tally, left[digest] = anew and anew(tally) or '', 0 end
          tallies[digest], cost, place = tally, 1, ''
        end
        local allowed, remaining, retry, reset, kept = ask(l, tally, cost, place)
        if op == TAKE and kept then
          if allowed and take then take(l, tally, cost, place) end
          tallies[digest], left[digest] = kept, reset
        end
        answers[i] = pack(DECISION, allowed and 1 or 0, remaining, retry, reset)
      end
    end
    for digest, time in pairs(left) do
      if write then write(tallies[digest]) else keep(prefix .. digest, tallies[digest], time) end
    end
    wrote = wrote or next(left)
    out[nr] = table.concat(answers)
  else
    out[nr] = 1
  end
end
-- Of its clock the partition need not know each microsecond: what a tally has ahead of now counts as of now.
if offset ~= had then
  call('HSET', B, 'clk', now, 'off', offset)
elseif wrote and now >= last + 1000 then
  call('HSET', B, 'clk', now)
end
return out
