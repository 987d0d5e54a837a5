#!lua flags=allow-oom
-- needs: leases
--
-- Move the deadlines of leases that still stand.
--
-- ARGV[2]  number of leases; for each: queue name, id, fence (8 bytes of epoch, 6 of number)
-- Returns  how long each still lasts, in microseconds; 0 where it is lost

begin()
local out, queues = {}, {}
for i = 1, tonumber(ARGV[2]) do
  local name, id, token = ARGV[3 * i], ARGV[3 * i + 1], ARGV[3 * i + 2]
  local q = queues[name]
  if q == nil then
    local nr = numberOf(name)
    q = nr and load(nr) or false
    queues[name] = q
  end
  out[i] = 0
  local entry = q and call('HGET', B .. 'f' .. q.nr, id)
  local f = entry and unpackLease(entry)
  if f and f.state == S.leased and sub(entry, 18, 31) == token then
    local lease, deadline = q.nr .. ':' .. id, now + q.lease
    -- Never earlier than before: then the deadline is the one that stood.
    if call('ZADD', B .. 'l', 'GT', 'CH', deadline, lease) == 0 then
      deadline = tonumber(call('ZSCORE', B .. 'l', lease))
    end
    out[i], M.first_lease = deadline - now, min(M.first_lease, deadline)
  end
end
finish()
return out
