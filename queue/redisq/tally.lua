-- Shared by take.lua and append.lua: what was taken under a key, by the arithmetic of leaky's limiters. All numbers are doubles, and
-- the products of whole ones stay below 2^53, as in Go; the others are computed in the same steps there.
--
-- A bound l is the numbers of a limiter: most, second, third; a tally s what was taken under one key, as of now, which is the same in
-- all of a script. A file an arithmetic has these functions:
--   read(l, s, value)    what the key holds, of whose value nothing is said where it is no text; what is not ours counts for nothing. A tally that is ahead
--                        of now, as numbers that changed leave it, is put right, and settled says so: the next take keeps it so
--   ask(l, s, cost, place)  returns whether it is allowed, what remains, the time to try again after, that until all is as fresh, and what take
--                        needs to know besides
--   take(l, s, cost, place, ...)  what was allowed when it was asked for last
--   back(l, s, cost, place) gives back
--   anew(s)              forgets
--   ends(l, s)           the time until it is as fresh
--   write(l, s, px)      keeps it so long
-- One letter stands for it: m, f, c, l, p; of the last two the key is no text that is read at once.

local MAX_LIMIT, MAX_ENTRIES = 1000000000, 10000
local BOUND, BOUND_BYTES = '>c1I8I8I8', 25

local function bound_at(text, at)
  local letter, most, second, third = unpack_(BOUND, text, at)
  return { letter = letter, most = most, second = second, third = third }
end

-- keep writes a tally that is as a fresh one after that time.
local function keep(write, s, left)
  if left > 0 then
    left = ceil(left / 1000)
    if ARGV[1] ~= '' then left = left + 3600000 end -- a simulated clock may stand still
    return write(s.l, s, left)
  end
  call('UNLINK', s.key)
  if s.costs then call('UNLINK', s.costs) end
end
