#!lua
-- Make a partition of a store, unless it is one.
--
-- ARGV[2..4]  schema, store id, partitions
-- Returns  {schema, store id, partitions} as they are now

local v = call('HMGET', B, 'schema', 'store', 'partitions')
if v[1] then return v end
call('HSET', B, 'schema', ARGV[2], 'store', ARGV[3], 'partitions', ARGV[4])
return { ARGV[2], ARGV[3], ARGV[4] }
