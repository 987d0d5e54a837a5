-- Names that every file uses. A part that is made late gets its own, which costs less than reaching for these.

local B = KEYS[1]
local call = redis.call
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local sub, byte, pack, unpackStruct = string.sub, string.byte, struct.pack, struct.unpack
-- Takes the place of a watcher that left a queue to others. Until the watcher is overdue, only a client that is not
-- short takes over.
local OFFERED = ' '
local HORIZON, SECOND, MAX_COST, OVERDUE, YEAR = 50000, 1000000, 1000, 250000, 365 * 86400 * 1000000
local MAX_VISITS = 20 -- queue.MaxVisits
local POLL = 2 * SECOND -- the longest pause between two requests of a client
local FARTHEST = 253402300799000000 -- as in leaky/pacer.go
-- The flags of a record. A number below EXPIRES is an ordinary job.
local EXPIRES, LANE, PRIORITY, NOT_BEFORE, BATCHED, COSTS = 2, 4, 8, 16, 32, 64
local ZERO = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' -- the lane without a key
local PRIORITY_STEP = 2 ^ 49 -- a priority is worth so much of turn
