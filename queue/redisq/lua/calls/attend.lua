#!lua
-- Note that a process takes part in admission.
--
-- ARGV[2..3]  process, how long a process counts, in us
-- Returns  number of processes that take part

begin()
local A = B .. 'A'
call('ZADD', A, now, ARGV[2])
call('ZREMRANGEBYSCORE', A, '-inf', '(' .. string.format('%.0f', now - ARGV[3]))
finish()
return call('ZCARD', A)
