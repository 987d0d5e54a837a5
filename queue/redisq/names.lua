-- The names that all parts use; each part that is made late has its own of them, which costs less.

local B = KEYS[1]
local call = redis.call
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local sub, byte, pack, unpack_ = string.sub, string.byte, struct.pack, struct.unpack
local HORIZON, SECOND, MAX_COST, OVERDUE, YEAR = 50000, 1000000, 1000, 250000, 365 * 86400 * 1000000
local FARTHEST = 253402300799000000 -- as in leaky/pacer.go
-- The flags of a record; one below EXPIRES says that the job is an ordinary one.
local EXPIRES, LANE, PRIORITY, NOT_BEFORE = 2, 4, 8, 16
local ZERO = string.rep('\0', 16) -- the lane without a key
local PRIORITY_STEP = 2 ^ 49 -- a priority is worth so much of turn

local S = { waiting = 1, scheduled = 2, leased = 3, deferred = 4, delivered = 5, dead = 6, held = 7, cancelled = 8, expired = 9 }
local V = { deliver = 1, fail = 2, bury = 3, release = 4, hold = 5, throttle = 6, down = 7 }
