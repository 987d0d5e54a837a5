#!lua flags=allow-oom
-- Delete a queue. Its keys are left to the sweeper, under a number that nothing
-- refers to any more.
--
-- ARGV[2..4]  name, expected revision (-1: any), '1' to delete held jobs too
-- Returns  {code, revision or jobs held}: 0 deleted; 1 no such queue; 2 another revision; 3 not empty

begin()
local name, expect = ARGV[2], tonumber(ARGV[3])
local nr = number_of(name)
local q = nr and load(nr)
if not q then return { 1, 0 } end
if expect >= 0 and expect ~= q.rev then return { 2, q.rev } end
if q.size > 0 and ARGV[4] ~= '1' then return { 3, q.size } end

bounded(q)
if q.tat > now or q.last > now then
  call('HSET', B .. 'x', name, pack('>I7I7I2', q.rem > 0 and q.tat + 1 or q.tat, q.last, q.lc))
end
-- What is remembered of others, until it no longer matters.
local others = call('HSCAN', B .. 'x', 0, 'COUNT', 20)[2]
for i = 1, #others, 2 do
  local tat, last = unpack_('>I7I7', others[i + 1])
  if tat <= now and last <= now then call('HDEL', B .. 'x', others[i]) end
end
local waiting, scheduled = call('ZCARD', B .. 'w' .. nr), call('ZCARD', B .. 't' .. nr)
M.tw, M.ts, M.tl = M.tw - waiting, M.ts - scheduled, M.tl - (q.size - waiting - scheduled)
M.td = M.td - call('LLEN', B .. 'd' .. nr)
call('HDEL', B .. 'n', name)
call('ZREM', B .. 'N', name)
call('ZREM', B .. 'a', nr)
call('ZREM', B .. 's', nr)
call('DEL', B .. 'q' .. nr)
call('RPUSH', B .. 'z', nr)
call('HINCRBY', B, 'queues', -1)
finish()
return { 0, q.size }
