#!lua flags=allow-oom
-- needs: counters
--
-- Look at what all queues of a partition hold and have counted.
--
-- ARGV[2..3]  after, limit
-- Returns  {name to go on behind, or '', now, queues}: of each {name, revision, size, bytes, deferred or '', last seen
--          on the overflow or '', meter window, count, previous count, n and d of the rate, what says that it is
--          paused, what its receiver has said, what is counted in order of COUNTERS}: texts as they are kept, or nil.
--          One that somebody broke is left out.

begin()
local most = tonumber(ARGV[3])
local FIELDS = { 'rev', 'size', 'bytes', 'deferred', 'behind', 'mw', 'mc', 'mp', 'n', 'd', 'paused', 'said' }
for _, counter in ipairs(COUNTERS) do FIELDS[#FIELDS + 1] = counter end

local names = call('ZRANGEBYLEX', B .. 'N', ARGV[2] == '' and '-' or '(' .. ARGV[2], '+', 'LIMIT', 0, most)
local numbers = names[1] and call('HMGET', B .. 'n', unpack(names)) or {}
local rows = {}
for i, name in ipairs(names) do
  local row = numbers[i] and redis.pcall('HMGET', B .. 'q' .. numbers[i], unpack(FIELDS))
  if row and row[1] then
    table.insert(row, 1, name)
    rows[#rows + 1] = row
  end
end
return { #names == most and names[most] or '', now, rows }
