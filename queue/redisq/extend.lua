#!lua flags=allow-oom
-- Move the deadlines of leases that still stand.
--
-- ARGV[2]  number of leases; for each: queue name, id, fence (8 bytes of epoch, 6 of number)
-- Returns  1 or 0 a lease

begin()
local out, queues = {}, {}
for i = 1, tonumber(ARGV[2]) do
  local name, id, token = ARGV[3 * i], ARGV[3 * i + 1], ARGV[3 * i + 2]
  local q = queues[name]
  if q == nil then
    local nr = number_of(name)
    q = nr and load(nr) or false
    queues[name] = q
  end
  out[i] = 0
  local entry = q and call('HGET', B .. 'f' .. q.nr, id)
  local f = entry and unpack_flight(entry)
  if f and f.state == S.leased and sub(entry, 18, 31) == token then
    call('ZADD', B .. 'l', 'GT', now + q.lease, q.nr .. ':' .. id)
    out[i] = 1
  end
end
finish()
return out
