-- The numbers of states and verdicts, as in Go.

local S = { waiting = 1, scheduled = 2, leased = 3, deferred = 4, delivered = 5, dead = 6, held = 7, cancelled = 8, expired = 9 }
local V = { deliver = 1, fail = 2, bury = 3, release = 4, hold = 5, throttle = 6, down = 7 }
