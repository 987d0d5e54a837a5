-- A job: how it is stored, and what is read of it in place.
--
-- What is stored under the key of a live job, by byte:
--
--   1        'L', or 'R' if it came back from the overflow
--   2..8     when it was appended
--   9..16    stamp: names the append call that brought it in, and its place there
--   17..24   fingerprint
--   25..26   cost
--   27       flags, then what they say (see headOf in lanes.lua), then the rest of the record
--
-- Of one that has ended: 'E', 7 bytes of when, then stamp, fingerprint and cost as above, then ENDED and the reason;
-- then, if it is dead, 2 bytes of the length of its timeline, the timeline and the record; if it was delivered, 5 bytes
-- of how long that took from its departure and 2 of the number of the client that had it.

local ENDED = '>BBI2c8I6I7I2'
local LIVE = { L = true, R = true }

local JOB_BYTES = 512 -- what a job takes beside its id and its record, as jobsize.Overhead
local BEFORE_RECORD = 16 -- of what is stored, the kind, the instant and the stamp are no part of the record
local ANY_BYTES = 2 ^ 53 -- the byte limit of a queue that has none

-- byteLimit is the queue's max_bytes, or without one its share of the server's memory.
local function byteLimit(q)
  if q.maxBytes > 0 then return q.maxBytes end
  return M.memoryShare > 0 and M.memoryShare or ANY_BYTES
end

local function jobKey(nr, id) return B .. 'j' .. nr .. ':' .. id end

-- trackDeadlines notes when jobs of q expire that have begun to wait or are scheduled: pairs of instant and id, and the
-- first of those instants. If that is the first of the whole partition the watcher is told, unless it must be quiet.
local function trackDeadlines(q, jobs, first, quiet)
  if not q.expiring then set(q, 'expiring', '1') end
  call('ZADD', B .. 'T' .. q.nr, unpack(jobs))
  if call('ZADD', B .. 'T', 'LT', 'CH', first, q.nr) == 0 then return end
  if M.firstExpiry == 0 or first < M.firstExpiry then M.firstExpiry = first end
  if not quiet then wakeFor(first + skew) end
end
