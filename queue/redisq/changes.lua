#!lua flags=allow-oom
-- Tell what was changed about a queue.
--
-- ARGV[2..3]  name, most changes
-- Returns  the latest changes, newest first, as note has them

begin()
local name, most = ARGV[2], tonumber(ARGV[3])
local nr = number_of(name)
local q, out = nr and load(nr), {}
local till = tonumber(call('ZSCORE', B .. 'G', name))
if till and till <= now then return out end
-- A pause that has ended by itself is recorded with what is changed next.
if q and q.lapsed then out[1] = { q.lapsed, '', 'resumed', q.rev, q.rev, '', '', LAPSED, 0 } end
for _, entry in ipairs(call('LRANGE', B .. 'H:' .. name, 0, most - #out - 1)) do out[#out + 1] = cmsgpack.unpack(sub(entry, 8)) end
return out
