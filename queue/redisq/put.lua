#!lua flags=allow-oom
-- Create a queue or change its spec.
--
-- ARGV[2..18]  name, spec (canonical JSON), n, d, burst, capacity, lease in us, max attempts,
--              retention in us, retained ended jobs, expected revision (0: must not exist, -1: any), stamp of this call,
--              places for what comes back, most deferred, their greatest age in us and as text, 1 if jobs may be deferred unless they say otherwise
-- Returns  {revision, created, changed, conflict}

begin()
check_run()
local name, spec, expect = ARGV[2], ARGV[3], tonumber(ARGV[12])
local n, d, b = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local nr = number_of(name)
local q = nr and load(nr)
local rev = q and q.rev or 0
-- This very call, repeated after a lost reply.
if q and call('HGET', B .. 'q' .. nr, 'stamp') == ARGV[13] then return { rev, rev == tonumber(call('HGET', B .. 'q' .. nr, 'made')) and 1 or 0, 1, 0 } end
if expect >= 0 and expect ~= rev then return { rev, 0, 0, 1 } end

if q and call('HGET', B .. 'q' .. nr, 'spec') == spec then return { rev, 0, 0, 0 } end

-- times is ceil(k x T) at the new rate.
local function times(k) return k * floor(d / n) + ceil(k * (d % n) / n) end

-- change carries the bucket over to another rate or burst (leaky.Pacer.Change).
local function change()
  bounded(q)
  local tat, a = q.tat, max(now, q.last)
  if q.rem > 0 then tat = tat + 1 end
  if n == 0 then
    tat = min(tat, a)
  elseif q.n == 0 then
    tat = a + times(q.lc)
  else
    if tat > a then tat = a + ceil((tat - a) * (d / n / (q.d / q.n))) end
    if b > q.b then tat = tat + times(b - q.b) end
  end
  q.tat, q.rem, q.n, q.d, q.b = tat, 0, n, d, b
  bounded(q)
end

local created = 0
if not q then
  created = 1
  local seq = tostring(call('HINCRBY', B, 'qseq', 1))
  -- Numbers that sort as text in the order they were made, and stay short.
  nr = (#seq > 1 and string.char(95 + #seq) or '') .. seq
  q = { nr = nr, n = n, d = d, b = b, tat = 0, rem = 0, last = 0, lc = 0, cmax = 1, changes = {}, paused = false }
  -- A queue made again goes on where the deleted one stopped.
  local grave = call('HGET', B .. 'x', name)
  if grave then
    q.tat, q.last, q.lc = unpack_('>I7I7I2', grave)
    call('HDEL', B .. 'x', name)
    call('ZREM', B .. 'X', name)
    bounded(q)
  end
  -- In a later run than the store's first it may have been there before, and have
  -- granted, and be lost with all of it.
  if M.ran > 0 then hold(q) end
  call('HSET', B .. 'q' .. nr, 'name', name, 'epoch', M.run, 'lf', 0, 'size', 0, 'turn', 0, 'cmax', 1, 'hc', q.hc or MAX_COST, 'refn', 0, 'paused', '')
  call('HSET', B .. 'n', name, nr)
  call('ZADD', B .. 'N', 0, name)
  call('HINCRBY', B, 'queues', 1)
elseif n ~= q.n or d ~= q.d or b ~= q.b then
  change()
end
rev = call('HINCRBY', B, 'rev', 1)
if created == 1 then call('HSET', B .. 'q' .. nr, 'made', rev) end
call('HSET', B .. 'q' .. nr, 'spec', spec, 'rev', rev, 'stamp', ARGV[13], 'n', n, 'd', d, 'b', b, 'tat', q.tat, 'rem', q.rem, 'last', q.last, 'lc', q.lc,
  'cap', ARGV[7], 'lease', ARGV[8], 'maxatt', ARGV[9], 'rfor', ARGV[10], 'rmax', ARGV[11],
  'mark', ARGV[14], 'dmax', ARGV[15], 'dage', ARGV[16], 'dagetext', ARGV[17], 'defers', ARGV[18])
if created == 0 then
  local e = agenda(q)
  if e then due(e) end
  q.cap = tonumber(ARGV[7])
  speak_up(q)
  save(q)
end
finish()
return { rev, created, 1, 0 }
