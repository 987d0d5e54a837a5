#!lua flags=allow-oom
-- needs: counters
-- reads: outflowStart, outflowCur, outflowPrev
--
-- Read what all queues of a partition hold and have counted.
--
-- ARGV[2..3]  after, limit
-- Returns  {name to continue with, or '', now, queues}: for each {name, revision, size, bytes, deferred, window of the
--          outflow, count, previous count, n and d of the rate, pause, state of the receiver or '', counters in order
--          of COUNTERS}. A queue with broken keys is left out.

begin()
local most = tonumber(ARGV[3])

local function reading(name, nr)
  local q = readQueue(nr)
  return q and { name, q.revision, q.size, q.bytes, max(q.deferred, q.behind), q.outflowStart, q.outflowCur,
    q.outflowPrev, q.n, q.d, q.pause,
    q.receiverText or '', unpack(countersOf(q)) }
end

local names = call('ZRANGEBYLEX', B .. 'N', ARGV[2] == '' and '-' or '(' .. ARGV[2], '+', 'LIMIT', 0, most)
local numbers = names[1] and call('HMGET', B .. 'n', unpack(names)) or {}
local rows = {}
for i, name in ipairs(names) do
  local ok, row = pcall(reading, name, numbers[i])
  if ok and row then rows[#rows + 1] = row end
end
return { #names == most and names[most] or '', now, rows }
