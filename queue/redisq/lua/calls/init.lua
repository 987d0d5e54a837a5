#!lua
-- needs: run
--
-- Make a partition of a store, unless it is one already.
--
-- ARGV[2..4]  schema, store id, partitions
-- Returns  {schema, store id, partitions} as they are now

local v = call('HMGET', B, 'schema', 'store', 'partitions')
if v[1] then return v end
-- Fences begin at the time in milliseconds, so that a store made again on the same server repeats no old fence.
local time = call('TIME')
-- A value of more than 64 bytes makes Redis keep the hash as a table, where each field is found at once. There may be a
-- field for each of thousands of rules.
call('HSET', B, 'wide', string.rep('.', 65), 'schema', ARGV[2], 'store', ARGV[3], 'partitions', ARGV[4], 'rev', 0)
local new = { lastFence = time[1] * 1000 + floor(time[2] / 1000), run = runId() }
new.watcher, new.deputy, new.reigns = '', '', {}
writePartition(setmetatable(new, { __index = function() return 0 end }))
return { ARGV[2], ARGV[3], ARGV[4] }
