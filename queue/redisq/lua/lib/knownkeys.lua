-- needs: tally
--
-- Of take, and of append where a queue asks its jobs: what rulekeys.lua must know of the call. That file is made only
-- for keys whose tallies do not stand, so few calls need it.

local list -- of recheck.lua, or false
local doubt -- whether a fresh tally that stands may be that of a new key
-- What is taken and need not be written yet: of the keys, so many arguments from the first on, by number the time until
-- they are fresh.
local handLeft, handFirst, handCount

-- ends_at is when a tally that is a table is fresh; 0 if it is.
local function endsAt(l, tally) return tally.sum > 0 and (tally.last or tally.at + l.second) or 0 end
