#!lua flags=allow-oom
-- needs: counters
-- reads: outflowStart, outflowCur, outflowPrev
--
-- Look at what all queues of a partition hold and have counted.
--
-- ARGV[2..3]  after, limit
-- Returns  {name to go on behind, or '', now, queues}: of each {name, revision, size, bytes, deferred, meter window,
--          count, previous count, n and d of the rate, what says that it is paused, what its receiver has said or '',
--          what is counted in order of COUNTERS}. One that somebody broke is left out.

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
