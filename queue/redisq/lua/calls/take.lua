#!lua
-- Ask rules of one arithmetic.
--
-- ARGV[2]  number of rules
-- ARGV[3]  the last instant that the clock can show, as the caller knows it, or ''
-- ARGV     for each rule: u:<name>, what that field must have, bounds (see tally.lua), number of keys, the
--          keys, questions: each has 1 byte of operation (a rules.TakeOp, or NOTHING to ask only whether the rule is
--          the same), 2 of its bound, 2 of its key, 4 of cost, 1 of how rare the key is (see rulekeys.lua), and 1 of
--          the length of the place's name, which follows
-- Returns  for each rule: 1 if it has changed or is gone, or the answers; then now. An answer is 1 byte that is 1 if
--          it is allowed, 3 if there is no room for another key, 4 if the take to correct is unknown; 4 of what
--          remains, 8 of the time to retry after, 8 of the time until all is fresh
--
-- Questions to a rule that has changed are not answered. Nor are those behind a question that made the script look at
-- many entries: their byte is 2, and they are to be asked again.

local QUESTION, QUESTION_BYTES = '>BI2I2I4BB', 11
local MOST_LOOKED = 10000 -- some 10 ms; see concurrency.lua
local wrote

local out, clock, last, ahead, doubted, arg = {}, nil, nil, nil, nil, 4
for nr = 1, ARGV[2] + 0 do
  local known, record, recheck = unpack(call('HMGET', B, ARGV[arg], 'clock', 'recheck'))
  if not clock then
    list = recheck
    clock = unpackClock(record or cmsgpack.pack(0, 0))
    last, ahead, doubted = clock.clockLast, clock.ahead, clock.doubt
    look(clock, nil, tonumber(ARGV[3]))
  end
  local first, count = arg + 4, ARGV[arg + 3] + 0
  if known == ARGV[arg + 1] then
    local bounds, questions = boundsOf(ARGV[arg + 2]), ARGV[first + count]
    -- B! is no key, so that the tally of key k is at k + 1
    local texts = not read and call('MGET', B .. '!', unpack(ARGV, first, first + count - 1))
    local answers, tallies, fresh, left, at, i = {}, texts or {}, {}, {}, 1, 0
    handLeft, handFirst, handCount, doubt = left, first, count, doubt or list
    while at <= #questions do
      local op, bound, k, cost, level, length = unpackStruct(QUESTION, questions, at)
      local l, tally, place = bounds[bound], tallies[k + 1], ''
      at, i = at + QUESTION_BYTES + length, i + 1
      if length > 0 then place = sub(questions, at - length, at - 1) end
      if op == NOTHING then
        answers[i] = pack(DECISION, 0, 0, 0, 0)
      elseif looked and looked > MOST_LOOKED then
        answers[i] = pack(DECISION, 2, 0, 0, 0)
      else
        if tally == nil then
          tally = read(l, ARGV[first + k - 1])
          tallies[k + 1] = tally
        end
        if op == REFUND or op == RESET then
          fresh[k] = fresh[k] or 0 -- whether the key stood is no longer known
          if op == REFUND then
            tally, left[k] = back(l, tally, cost, place)
          else
            tally, left[k] = anew and anew(tally) or '', 0
          end
          if left[k] == 0 and not read then tally = '' end
          tallies[k + 1], cost, place = tally, 1, ''
          if l.keys > 0 then withRulekeys().went(ARGV[first + k - 1], level, left[k]) end
        end
        local known = true
        if op == CORRECT then
          local text, reset
          known, text, reset = correctTake(l, ARGV[first + k - 1], tally, place, cost)
          if text then
            if l.keys > 0 then
              withRulekeys().corrected(l, { back = back, rest = rest }, ARGV[first + k - 1], level, reset, tally)
            end
            tally, left[k], fresh[k] = reset > 0 and text or '', reset, fresh[k] or 0
            tallies[k + 1] = tally
          end
          cost, place = 1, ''
        end
        local allowed, remaining, retry, reset, kept, was = ask(l, tally, cost, place)
        local said = known and (allowed and 1 or 0) or 4
        if allowed and op <= PEEK and l.keys > 0 then
          local till, ends = was or endsAt(l, tally), now + reset
          if till < ends - ends % l.slot or doubt and till <= now then -- else the key is known
            local keys, key, kind = withRulekeys(), ARGV[first + k - 1], { back = back, rest = rest }
            local new = till <= now and (till == 0 or doubt) and keys.isNew(l, kind, key, tally)
            local wait = new and keys.noRoom(l, kind, key, level)
            if wait then
              allowed, said, remaining, retry, reset, kept = false, 3, 0, wait, 0, nil
            elseif new and op == TAKE then
              keys.came(l, kind, key, level, reset)
              fresh[k] = 0 -- the key counts as new, and gets a new expiry
            elseif op == TAKE then
              keys.keepKeys(l, key)
            end
          end
        end
        fresh[k] = fresh[k] or was
        if op == TAKE and kept then
          if allowed and take then take(l, tally, cost, place) end
          if allowed and noteOpenTake then noteOpenTake(ARGV[first + k - 1], place, cost) end
          tallies[k + 1], left[k] = kept, reset
        end
        answers[i] = pack(DECISION, said, remaining, retry, reset)
      end
    end
    for k, time in pairs(left) do
      if write then write(tallies[k + 1]) else keep(ARGV[first + k - 1], tallies[k + 1], time, fresh[k]) end
    end
    wrote = wrote or next(left)
    out[nr] = table.concat(answers)
  else
    out[nr] = 1
  end
  arg = first + count + 1
end
-- Takes alone write the clock at most once a millisecond: a tally that is ahead of now counts as if it were of now.
if ahead ~= clock.ahead or doubted ~= clock.doubt or wrote and now >= last + 1000 then
  clock.clockLast = now
  call('HSET', B, 'clock', packClock(clock))
end
out[ARGV[2] + 1] = now
return out
