-- A job: how it is stored, and what scripts read of it in place.
--
-- The key of a live job has, by byte:
--
--   1        'L', or 'R' if it came back from the overflow
--   2..8     when it was appended
--   9..16    stamp: the append call that brought it in, and its index there
--   17..24   fingerprint
--   25..26   cost
--   27       flags, then what they stand for (see headOf in lanes.lua), then the rest of the record
--
-- The key of an ended job has 'E', 7 bytes of when it ended, then stamp, fingerprint and cost as above, then ENDED and
-- the reason. If the job is dead, 2 bytes of the length of its timeline, the timeline and the record follow. If it was
-- delivered, 5 bytes of the time since its departure and 2 of the client's number follow.

local ENDED = '>BBI2c8I6I7I2'
local LIVE = { L = true, R = true }

local JOB_BYTES = 512 -- bytes of a job besides its id and its record, as jobsize.Overhead
local BEFORE_RECORD = 16 -- bytes of kind, instant and stamp, which are not part of the record
local ANY_BYTES = 2 ^ 53 -- the byte limit of a queue that has none

-- byteLimit returns the queue's max_bytes, or its share of the server's memory if it has none.
local function byteLimit(q)
  if q.maxBytes > 0 then return q.maxBytes end
  return M.memoryShare > 0 and M.memoryShare or ANY_BYTES
end

local function jobKey(nr, id) return B .. 'j' .. nr .. ':' .. id end

-- trackDeadlines notes when waiting or scheduled jobs of q expire: jobs has pairs of instant and id, first is the first
-- instant. It wakes the watcher if that is the first of the whole partition, unless quiet is set.
local function trackDeadlines(q, jobs, first, quiet)
  if not q.expiring then set(q, 'expiring', '1') end
  call('ZADD', B .. 'T' .. q.nr, unpack(jobs))
  if call('ZADD', B .. 'T', 'LT', 'CH', first, q.nr) == 0 then return end
  if M.firstExpiry == 0 or first < M.firstExpiry then M.firstExpiry = first end
  if not quiet then wakeFor(first + skew) end
end
