-- Shared by all operations: put in front of each by scripts.go.
--
-- KEYS[1]  the partition's hash, "<prefix>{<p>}". Every other key of the
--          partition begins with it, and so lies in the same slot.
-- ARGV[1]  the instant to use instead of TIME, or '' (simulation only)
--
--   <B>        hash  schema, store, partitions; clock: clk, off; run, ran; counters
--                    qseq, fseq, rev; watch: wid, wat; totals: queues, tw, ts, tl, td
--   <B>n       hash  queue name -> queue number
--   <B>N       zset  queue names, for listing in order
--   <B>x, <B>X hash, zset  name of a deleted queue -> its bucket; until when that matters
--   <B>a       zset  agenda: number of a queue where a job waits -> its next possible departure
--   <B>s       zset  number of a queue where a job is scheduled -> when the first is due
--   <B>l       zset  leases: number:id -> deadline
--   <B>c, <B>C zset, hash  clients: last seen; name and version
--   <B>g:<id>  string  a client's last grant
--   <B>z       list  numbers of deleted queues that the sweeper has still to free
--   <B>q<nr>   hash  one queue (see load)
--   <B>w<nr>   zset  waiting: id -> turn
--   <B>t<nr>   zset  scheduled: id -> due
--   <B>f<nr>   hash  flight: id -> what happened since the first grant (see flight)
--   <B>e<nr>, <B>d<nr>  list  ended well; dead: 7 bytes of time, then the id
--   <B>r<nr>   list  the last errors
--   <B>j<nr>:<id>  string  a job: 'L' and its record, or 'E' and what is left of it
--
--   <B>y       zset  number of a queue with dead jobs -> when the oldest may be forgotten
--
-- Numbers stay below 2^53. The types of the keys that an operation will write
-- are checked before it writes the first, because Redis does not roll a script
-- back (invariant 10): begin() looks at the partition's, sound() at a queue's.

local B = KEYS[1]
local call = redis.call
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local sub, byte, pack, unpack_ = string.sub, string.byte, struct.pack, struct.unpack
local HORIZON, SECOND, MAX_COST, OVERDUE, YEAR = 50000, 1000000, 1000, 250000, 365 * 86400 * 1000000

local S = { waiting = 1, scheduled = 2, leased = 3, delivered = 5, dead = 6 }
local V = { deliver = 1, fail = 2, bury = 3, release = 4 }

local function raise(code, text) error({ err = code .. ' ' .. text }) end

-- error_text makes what pcall caught a line that begins with the code.
local function error_text(e)
  if type(e) == 'table' then return tostring(e.err) end
  return 'ERR ' .. tostring(e)
end

-- The partition: clock, run and totals, written back once by finish().
local M, now

local META = { 'schema', 'clk', 'off', 'run', 'ran', 'fseq', 'wid', 'wat', 'tw', 'ts', 'tl', 'td' }
local was -- M as it was read

local function begin()
  -- A slot that is on its way to another node has some of the keys only.
  local here = redis.pcall('EXISTS', B .. '?')
  if type(here) == 'table' then raise('TRYAGAIN', 'the slot of ' .. B .. ' is being moved') end
  call('ZCARD', B .. 'a')
  call('ZCARD', B .. 's')
  call('ZCARD', B .. 'l')
  local v = call('HMGET', B, unpack(META))
  if not v[1] then raise('NOSTORE', B .. ' holds no penstock store') end
  M, was = { run = v[4] or '', wid = v[7] or '' }, v
  for i = 2, #META do
    if not M[META[i]] then M[META[i]] = tonumber(v[i]) or 0 end
  end
  local t = tonumber(ARGV[1])
  if not t then
    local time = call('TIME')
    t = time[1] * SECOND + time[2]
  end
  -- Invariant 9: a clock that was set back is held off by an offset that grows.
  now = t + M.off
  if now < M.clk then
    M.off = M.off + M.clk - now
    now = M.clk
  end
end

-- A server that restarted or failed over may have lost its last writes: its
-- run_id is the epoch of fences and buckets, ran the instant at which it was
-- first seen.
local function check_run()
  local run = string.match(call('INFO', 'server'), 'run_id:(%x+)')
  run = sub(run, 1, 8)
  if run ~= M.run then M.run, M.ran = run, now end
end

local function finish()
  M.clk = now
  local args = {}
  for i = 2, #META do
    local value = M[META[i]]
    if value ~= (tonumber(was[i]) or was[i] or 0) and value ~= was[i] then
      args[#args + 1] = META[i]
      args[#args + 1] = value
    end
  end
  if args[1] then call('HSET', B, unpack(args)) end
end

local function wake(client)
  call('PUBLISH', sub(B, 1, string.find(B, '{', 1, true) - 1) .. ':wake', string.match(B, '{(%d+)}') .. ' ' .. client)
end

-- due says that something can depart at instant e: unless the watcher asks by
-- then, it is woken. It is taken to ask at once, so that one wake is enough.
-- A watcher that is overdue is dead. While nobody watches everybody is woken,
-- four times a second at most.
local function due(e)
  if M.wid ~= '' and now >= M.wat + OVERDUE then M.wid = '' end
  if M.wid == '' then
    if now >= M.wat then
      wake('')
      M.wat = now + OVERDUE
    end
  elseif e < M.wat then
    wake(M.wid)
    M.wat = now
  end
end

-- sound raises unless the keys of a queue are of the types that they must be.
local function sound(nr)
  call('ZCARD', B .. 'w' .. nr)
  call('ZCARD', B .. 't' .. nr)
  call('HLEN', B .. 'f' .. nr)
  call('LLEN', B .. 'e' .. nr)
  call('LLEN', B .. 'd' .. nr)
  call('LLEN', B .. 'r' .. nr)
end

-- load returns a queue's hot fields, or nil.
local QUEUE = { 'n', 'd', 'b', 'tat', 'rem', 'last', 'lc', 'lf', 'epoch', 'cap', 'size', 'turn', 'cmax', 'refn', 'paused',
  'lease', 'maxatt', 'rfor', 'rmax', 'rev', 'name' }

local function load(nr)
  local v = call('HMGET', B .. 'q' .. nr, unpack(QUEUE))
  if not v[1] then return nil end
  return {
    nr = nr, n = tonumber(v[1]), d = tonumber(v[2]), b = tonumber(v[3]), tat = tonumber(v[4]), rem = tonumber(v[5]),
    last = tonumber(v[6]), lc = tonumber(v[7]), lf = tonumber(v[8]), epoch = v[9], cap = tonumber(v[10]), size = tonumber(v[11]),
    turn = tonumber(v[12]), cmax = tonumber(v[13]), refn = tonumber(v[14]), paused = v[15] == '1', lease = tonumber(v[16]),
    maxatt = tonumber(v[17]), rfor = tonumber(v[18]), rmax = tonumber(v[19]), rev = tonumber(v[20]), name = v[21], changes = {},
  }
end

local function number_of(name) return call('HGET', B .. 'n', name) end

-- set notes a changed field of q for save.
local function set(q, field, value)
  q[field] = value
  q.changes[field] = true
end

-- add counts in a field that load does not read.
local function add(q, field, by)
  if by ~= 0 then call('HINCRBY', B .. 'q' .. q.nr, field, by) end
end

local function save(q)
  local args = {}
  for field in pairs(q.changes) do
    args[#args + 1] = field
    args[#args + 1] = q[field]
  end
  if #args > 0 then call('HSET', B .. 'q' .. q.nr, unpack(args)) end
  q.changes = {}
end

local function save_bucket(q)
  set(q, 'tat', q.tat)
  set(q, 'rem', q.rem)
  set(q, 'last', q.last)
  set(q, 'lc', q.lc)
end

-- The arithmetic of leaky/pacer.go; n and d are 0 when the rate is unlimited.

local function advance(q, tat, rem, cost)
  if q.n == 0 then return tat, rem end
  rem = rem + cost * (q.d % q.n)
  return tat + cost * floor(q.d / q.n) + floor(rem / q.n), rem % q.n
end

local function burst_parts(q) return advance(q, 0, 0, q.b - 1) end

local function bounded(q)
  q.last = min(q.last, now + HORIZON)
  if q.n == 0 then
    q.rem = 0
    q.tat = min(q.tat, q.last)
    return
  end
  q.rem = min(max(q.rem, 0), q.n - 1)
  q.lc = min(max(q.lc, 0), MAX_COST)
  local whole, rest = burst_parts(q)
  local tat, rem = advance(q, q.last + whole, rest, q.lc)
  if q.tat > tat or (q.tat == tat and q.rem > rem) then q.tat, q.rem = tat, rem end
end

local function conforming(q)
  if q.n == 0 then return q.tat end
  local whole, rest = burst_parts(q)
  local d = q.tat - whole
  if q.rem > rest then d = d + 1 end
  return d
end

local function next_departure(q)
  bounded(q)
  return max(now, conforming(q))
end

-- take grants a departure within the horizon, or returns nil.
local function take(q, cost)
  local d = next_departure(q)
  if d > now + HORIZON then return nil end
  if q.tat < now then q.tat, q.rem = now, 0 end
  q.tat, q.rem = advance(q, q.tat, q.rem, cost)
  q.last, q.lc = d, cost
  return d
end

local function give_back(q)
  if q.lc == 0 or q.n == 0 then
    q.lc = 0
    return
  end
  q.tat = q.tat - q.lc * floor(q.d / q.n)
  q.rem = q.rem - q.lc * (q.d % q.n)
  if q.rem < 0 then
    local borrow = floor((-q.rem + q.n - 1) / q.n)
    q.tat = q.tat - borrow
    q.rem = q.rem + borrow * q.n
  end
  q.lc = 0
end

local function hold(q)
  local at = M.ran + HORIZON
  local whole, rest = burst_parts(q)
  if rest > 0 then whole = whole + 1 end
  local tat, rem = advance(q, at + whole, 0, q.cmax)
  if q.tat < tat or (q.tat == tat and q.rem < rem) then q.tat, q.rem = tat, rem end
  q.last, q.lc = at, q.cmax
end

-- flight packs what happened to a job since its first grant: state, attempts,
-- turn, departure or due, fence; then the last settled fence and its verdict;
-- then the last reason.
local FLIGHT_HEAD = '>BI2I7I7c8I6'
local FLIGHT = FLIGHT_HEAD .. 'c8I6B'
local SETTLED = 32 -- where the last settled fence begins
local NEVER_SETTLED = '00000000' .. string.rep('\0', 7)

local function pack_flight(f)
  return pack(FLIGHT, f.state, f.attempts, f.turn, f.at, f.epoch, f.fence, f.pepoch, f.pfence, f.pverdict) .. f.reason
end

local function unpack_flight(s)
  local f = {}
  local pos
  f.state, f.attempts, f.turn, f.at, f.epoch, f.fence, f.pepoch, f.pfence, f.pverdict, pos = unpack_(FLIGHT, s)
  f.reason = sub(s, pos)
  return f
end

-- A job: 'L', 7 bytes of the instant it was appended, then its body as it came:
-- 8 of stamp and the record (8 of fingerprint, 2 of cost, ...). Once ended: 'E',
-- 7 of the instant it ended, stamp, fingerprint and cost, then ENDED and the
-- reason, then, when dead, the record.
local ENDED = '>BBI2c8I6I7I2'

local function job_key(nr, id) return B .. 'j' .. nr .. ':' .. id end
local function time_at(job) return (unpack_('>I7', job, 2)) end
local function cost_of(job)
  local high, low = byte(job, 25, 26)
  return high * 256 + low
end

local function unpack_ended(job)
  local e = {}
  local length, pos
  e.state, e.verdict, e.attempts, e.epoch, e.fence, e.appended, length, pos = unpack_(ENDED, job, 27)
  e.ended, e.reason = time_at(job), sub(job, pos, pos + length - 1)
  return e
end

-- forget drops the oldest ended jobs beyond the retention, a bounded number a
-- call, and returns how many. A key goes only if it is still that ended job.
local function forget(q, list)
  local key = B .. list .. q.nr
  local over = min(call('LLEN', key) - q.rmax, 500)
  for _, entry in ipairs(call('LRANGE', key, max(over, 0), max(over, 0) + 31)) do
    if unpack_('>I7', entry) + q.rfor > now then break end
    over = max(over, 0) + 1
  end
  if over <= 0 then return 0 end
  for _, entry in ipairs(call('LPOP', key, over)) do
    local job = job_key(q.nr, sub(entry, 8))
    local head = call('GETRANGE', job, 0, 7)
    if sub(head, 1, 1) == 'E' and sub(head, 2) == sub(entry, 1, 7) then call('UNLINK', job) end
  end
  return over
end

-- finish_job writes what is left of an ended job. f is its flight with the
-- fence that ended it. Returns what is wrong with the job's key, if it is.
local function finish_job(q, id, f, state, verdict)
  local key = job_key(q.nr, id)
  local job
  if state == S.dead then job = redis.pcall('GET', key) else job = redis.pcall('GETRANGE', key, 0, 25) end
  if type(job) == 'table' then return error_text(job) end
  if not job or sub(job, 1, 1) ~= 'L' or #job < 26 then return nil end
  local left = 'E' .. pack('>I7', now) .. sub(job, 9, 26)
    .. pack(ENDED, state, verdict, f.attempts, f.epoch, f.fence, time_at(job), #f.reason) .. f.reason
  if state == S.dead then left = left .. sub(job, 17) end
  call('SET', key, left, 'PX', ceil(q.rfor / 1000))
end

-- died puts an ended job on the list of the dead.
local function died(q, ids)
  if #ids == 0 then return end
  for i, id in ipairs(ids) do ids[i] = pack('>I7', now) .. id end
  call('RPUSH', B .. 'd' .. q.nr, unpack(ids))
  call('ZADD', B .. 'y', 'NX', now + q.rfor, q.nr)
  add(q, 'died', #ids)
  M.td = M.td + #ids - forget(q, 'd')
end

-- meter counts departures in steps of 10 s, for the measured outflow.
local function meter(q, count)
  local v = call('HMGET', B .. 'q' .. q.nr, 'mw', 'mc', 'mp')
  local w, mw, mc, mp = floor(now / (10 * SECOND)), tonumber(v[1]) or 0, tonumber(v[2]) or 0, tonumber(v[3]) or 0
  if w == mw + 1 then
    mp, mc = mc, 0
  elseif w ~= mw then
    mp, mc = 0, 0
  end
  call('HSET', B .. 'q' .. q.nr, 'mw', w, 'mc', max(mc + count, 0), 'mp', mp)
end

local function note_error(q, id, reason)
  local key = B .. 'r' .. q.nr
  call('LPUSH', key, pack('>I7', now) .. id .. ' ' .. reason)
  call('LTRIM', key, 0, 9)
end

-- agenda notes when the queue is next worth a visit: when its first waiting job
-- can depart, and when its first scheduled job is due. Returns the earlier. When
-- a job came back (back is 'LT') to others that wait, the queue could have
-- departed since the earlier instant.
local function agenda(q, back)
  local departs, ripens
  if not q.paused then
    if call('ZCARD', B .. 'w' .. q.nr) > 0 then departs = next_departure(q) end
    ripens = tonumber(call('ZRANGE', B .. 't' .. q.nr, 0, 0, 'WITHSCORES')[2])
  end
  if not departs then
    call('ZREM', B .. 'a', q.nr)
  elseif back then
    call('ZADD', B .. 'a', back, departs, q.nr)
  else
    call('ZADD', B .. 'a', departs, q.nr)
  end
  if ripens then call('ZADD', B .. 's', ripens, q.nr) else call('ZREM', B .. 's', q.nr) end
  return departs and min(departs, ripens or departs) or ripens
end
