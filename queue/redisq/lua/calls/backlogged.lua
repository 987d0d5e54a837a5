#!lua flags=allow-oom
-- Name queues that have a backlog, those first that have had it longest.
--
-- ARGV[2]  limit
-- Returns  the names

begin()
return call('ZRANGE', B .. 'o', 0, tonumber(ARGV[2]) - 1)
