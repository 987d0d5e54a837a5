-- Shared by take.lua and append.lua: what was taken under a key, by the arithmetic of leaky's limiters. All numbers are
-- doubles. The products of whole ones stay below 2^53, as in Go; the others are computed in the same steps there.
--
-- A bound l has the numbers of a limiter: most, second, third; how many keys its rule may hold, or 0; and slot, at
-- least half of the longest that a key can take until it is fresh again (see rulekeys.lua). A tally is what was taken
-- under one key, as of now, which is the same in all of a script; it is fresh if it limits no more than an empty one.
-- Mostly it is the text that the key holds; a text of another program counts as empty. Each arithmetic is a file with
-- these functions:
--
--   ask(l, tally, cost, place)   returns whether the cost is allowed, what remains, the time to retry after, the time
--                                until all is fresh again, and the tally to keep: with the cost if it is allowed, else
--                                nil, or a corrected tally if this one was ahead of now, as changed numbers leave it.
--                                Of a text it also returns when the former tally is fresh again, or an earlier instant,
--                                if that is known.
--   back(l, tally, cost, place)  gives back: returns what is left, and the time until it is fresh again
--
-- Of two arithmetics, l and p, a tally is not a text that is read at once, but a table that changes in place:
--
--   read(l, key)                 returns the tally
--   rest(l, key)                 returns the time until it is fresh again, without reading it
--   take(l, tally, cost, place)  takes what was allowed when it was last asked for
--   anew(tally)                  forgets; a text becomes ''
--   write(tally)                 keeps it
--
-- Of b, takes can be corrected:
--
--   noteOpenTake(key, id, cost)           notes an allowed take
--   correctTake(l, key, tally, id, cost)  charges the actual cost, see there

local SPAN = 4 * SECOND
local MAX_LIMIT, MAX_ENTRIES = 1000000000, 10000
local BOUND, BOUND_BYTES, DECISION = '>c1I8I8I8I8I8', 41, '>BI4I8I8'

-- boundsOf reads packed bounds. kinds has the arithmetics by their letters, if they differ.
local function boundsOf(text, kinds)
  local bounds = {}
  for at = 1, #text, BOUND_BYTES do
    local letter, most, second, third, keys, slot = unpackStruct(BOUND, text, at)
    bounds[#bounds + 1] = { most = most, second = second, third = third, keys = keys, slot = slot,
      kind = kinds and kinds[letter], debts = letter == 'b', whole = false, part = 0, us = 0, rest = 0 }
  end
  return bounds
end

-- lasting returns how long a key is kept, in ms, if its tally is fresh again after that time. Redis counts from the
-- beginning of the script, and on a busy machine now is later. And the clock may stand still for a while.
local function lasting(left)
  return ceil((left + DOUBTED) / 1000) + (ARGV[1] == '' and 1000 or 3600000) -- a simulated clock may do so for longer
end

-- keep writes a tally that is a text; was is when the tally that it replaces is fresh again. The key is kept to the end
-- of the span in which its tally is fresh again. So the expiry of a tally that is asked often mostly stays, and setting
-- it is half of the cost of writing. And the tally mostly stands when it is asked again; else it would have to be
-- counted (see rulekeys.lua).
local function keep(key, text, left, was)
  local span = floor((now + left) / SPAN)
  if left <= 0 then
    call('UNLINK', key)
  elseif span <= floor(was / SPAN) then
    call('SET', key, text, 'KEEPTTL')
  else
    call('SET', key, text, 'PX', lasting((span + 1) * SPAN - now))
  end
end
