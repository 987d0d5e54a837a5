#!lua flags=allow-oom
-- List queues that have a backlog, the oldest backlog first.
--
-- ARGV[2]  limit
-- Returns  the names

begin()
return call('ZRANGE', B .. 'o', 0, tonumber(ARGV[2]) - 1)
