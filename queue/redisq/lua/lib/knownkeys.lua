-- needs: tally
--
-- What rulekeys.lua must know of a take or an append. That file is made only for keys without a tally, so few calls
-- make it.

local list -- see recheck.lua; or false
local doubt -- whether the key of a fresh tally that stands may be new
-- Tallies that were changed and are not written yet. handCount arguments from handFirst on are their keys. handLeft has
-- the time until each is fresh, by its index.
local handLeft, handFirst, handCount

-- endsAt returns when a tally that is a table is fresh; 0 if it is.
local function endsAt(l, tally) return tally.sum > 0 and (tally.last or tally.at + l.second) or 0 end
