#!lua flags=allow-oom
-- Sum up a partition, and list the clients seen lately.
--
-- Returns  {queues, waiting, scheduled, leased, held, deferred, dead, when a drainer was last seen or 0, now, skew,
--          clients, number of jumps of the server's clock, when it last jumped or 0 (see clock.lua)}, clients seven
--          entries each: id, last seen, name, version, what it was granted: step of 10 s, in it, before

begin()
local clients = {}
local seen = call('ZRANGEBYSCORE', B .. 'c', now - 10 * SECOND, '+inf', 'WITHSCORES')
for i = 1, #seen, 2 do
  clients[#clients + 1] = seen[i]
  clients[#clients + 1] = tonumber(seen[i + 1]) - skew
  local packed = call('HGET', B .. 'C', seen[i])
  local named = packed and cmsgpack.unpack(packed) or { '', '' }
  clients[#clients + 1] = named[1]
  clients[#clients + 1] = named[2]
  local lately = call('HGET', B, 'g:' .. seen[i])
  for _, n in ipairs(lately and cmsgpack.unpack(lately) or { 0, 0, 0 }) do clients[#clients + 1] = n end
end
local last = call('ZRANGE', B .. 'c', -1, -1, 'WITHSCORES')
return { tonumber(call('HGET', B, 'queues')) or 0, M.waiting, M.scheduled, M.leased,
  tonumber(call('HGET', B, 'held')) or 0, M.deferred, M.dead,
  last[2] and tonumber(last[2]) - skew or 0, now, skew, clients, M.jumps, M.jumped }
