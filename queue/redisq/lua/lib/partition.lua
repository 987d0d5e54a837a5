-- Shared by all operations but take, behind names.lua and clock.lua; scripts.go puts them in front of each.
--
-- KEYS[1]  the partition's hash, "<prefix>{<p>}". Every other key of the
--          partition begins with it, and so lies in the same slot.
-- ARGV[1]  the instant to use instead of TIME, or '' (simulation only)
--
--   <B>        hash  schema, store, partitions; clock: clk, off; run, ran; counters
--                    qseq, fseq, cseq, rev, rseq; watch: wid (see OFFERED), wat; totals: queues, tw, ts, tl, th, td, to;
--                    memory: mat, mleft, share (see memory.lua); keepchanges, for how long in us, if it was said; te, when the first of all jobs expires that wait or are scheduled, or 0; u:<name>, of a rule: the number
--                    of what is taken from it, its revision, its salt and an instant, by which whoever asks it knows it; wide (see init.lua)
--   <B>n       hash  queue name -> queue number
--   <B>N       zset  queue names, for listing in order
--   <B>x, <B>X hash, zset  name of a deleted queue -> its bucket, rate and burst; until when that matters
--   <B>a       zset  agenda: number of a queue where a job waits -> its next possible departure; of a
--                    group the parent's
--   <B>s       zset  number of a queue where a job is scheduled, or only resting lanes have jobs -> when the first is due
--   <B>pa, <B>ps  zset  the same of pull queues
--   <B>l       zset  leases: number:id -> deadline
--   <B>T       zset  number of a queue of whose jobs that wait or are scheduled some expire -> when the first does
--   <B>c, <B>C zset, hash  clients: last seen; name and version
--   <B>k       hash  number of a client -> its name, of the latest 1000
--   <B>g:<id>  string  a client's number and its last grant
--   <B>m:<id>  string  what a call over many jobs was answered (see answers.lua)
--   <B>H:<kind>:<name>  list  what was done to the queue or rule of that name, and P: what it was (see changes.lua)
--   <B>G       zset  kind:name of a deleted one of which these are kept -> until when
--   <B>E       zset  name of a queue with quotas by a calendar -> until when that is known well enough
--   <B>o       zset  name of a queue with a backlog -> since when
--   <B>z       list  numbers of deleted queues that the sweeper has still to free
--   <B>q<nr>   hash  one queue (see load)
--   <B>w<nr>   zset  waiting in the lane without a key: id -> turn
--   <B>w<nr>:<lane>  zset  waiting in another; a lane is known by the 16 bytes of its digest
--   <B>L<nr>   zset  lanes that are ready: lane -> tag
--   <B>b<nr>   zset  lanes that rest or are busy: lane -> until when, or inf
--   <B>i<nr>   zset  those of them that a changed rule is to make ready: as <B>b<nr>
--   <B>h<nr>   hash  lane with a key -> what the queue holds of it (see lanes.lua)
--   <B>k<nr>   hash  lane -> its jobs in flight
--   <B>u<nr>   zset  lanes with a key that hold jobs, in order of their digests
--   <B>O<nr>   hash  lane -> rule in place of the queue's for lanes (see lanes.lua)
--   <B>v<nr>:<lane>  string  a lane's bucket, until it delays nothing any more
--   <B>S<nr>:<lane>  string  until when a lane stops, until that matters no more
--   <B>R<nr>   zset  of a parent: numbers of the members of its group that rest -> until when
--   <B>Y<nr>   zset  of those that are ready -> tag
--   <B>t<nr>   zset  scheduled: id -> due
--   <B>T<nr>   zset  jobs that wait or are scheduled, and expire: id -> when
--   <B>K<nr>   zset  held: id -> since when
--   <B>f<nr>   hash  flight: id -> what happened since the first grant (see flight)
--   <B>e<nr>   list  ended well, cancelled or expired: 7 bytes of time, then the id
--   <B>r<nr>   list  the last errors
--   <B>d:<name>, <B>D:<name>  zset, hash  dead jobs of a queue and of former ones of its name: id -> when it died;
--                    number of the queue in which it did
--   <B>y       zset  name of a queue with dead jobs -> when the oldest may be forgotten
--   <B>Y       zset  the same names, for listing in order
--   <B>R       hash  name of a deleted queue with dead jobs -> 7 bytes of its retention in us, 7 of its most
--   <B>U       zset  names of rules, for listing in order
--   <B>U:<name>  hash  one rule: rule, its canonical JSON; rev; algorithm; nr, the number of what is taken from it, new when
--                    that is forgotten; made, stamp, salt
--   <B>V<nr>:<key>  string or zset  what was taken under a key, until it is forgotten; a key is known by the 16 bytes of its digest
--                    (see tallies.lua; concurrency.lua has more, with digits and a c behind it)
--   <B>W<nr>   zset  keys that a rule holds, or a part of them (see rulekeys.lua)
--   <B>F       hash  group with rules -> number and instant, new with whatever its queues ask their jobs
--   <B>A       zset  process that takes part in admission -> when it last said so; on the first partition
--   <B>j<nr>:<id>  string  a job: 'L' and its record, 'R' when it came back from the overflow,
--                    'E' and what is left of it, or 'D' while it is there (see overflow.lua)
--
-- Numbers stay below 2^53. The types of the keys that an operation will write
-- are checked before it writes the first, because Redis does not roll a script
-- back (invariant 10): begin() looks at the partition's, check_keys() at a queue's.

-- error_text makes what pcall caught a line that begins with the code.
local function error_text(e)
  if type(e) == 'table' then return tostring(e.err) end
  return 'ERR ' .. tostring(e)
end

-- The partition: its clock, run and totals, written back once by finish().
local M

local META = { 'schema', 'clk', 'off', 'run', 'ran', 'fseq', 'wid', 'wat', 'tw', 'ts', 'tl', 'td', 'to', 'te', 'mat', 'mleft', 'share' }
local was -- M as it was read

local function begin()
  check_slot()
  call('ZCARD', B .. 'a')
  call('ZCARD', B .. 's')
  call('ZCARD', B .. 'l')
  local v = call('HMGET', B, unpack(META))
  if not v[1] then raise('NOSTORE', B .. ' holds no penstock store') end
  M, was = { run = v[4] or '', wid = v[7] or '' }, v
  for i = 2, #META do
    if not M[META[i]] then M[META[i]] = tonumber(v[i]) or 0 end
  end
  if M.te > 0 then call('ZCARD', B .. 'T') end
  M.off = clock(M.clk, M.off)
end

-- A server that restarted or failed over may have lost its last writes: its
-- run_id is the epoch of fences and buckets, ran the instant at which it was
-- first seen, 0 for the run in which the store was made.
local function run_id() return sub(string.match(call('INFO', 'server'), 'run_id:(%x+)'), 1, 8) end

local function check_run()
  local run = run_id()
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

local function publish(channel, message) call('PUBLISH', sub(B, 1, string.find(B, '{', 1, true) - 1) .. channel, message) end

local function wake(client) publish(':wake', string.match(B, '{(%d+)}') .. ' ' .. client) end

-- agenda_key is the key of a zset of the agenda, 'a' or 's', on which a queue stands.
local function agenda_key(q, zset) return B .. (q.pull and 'p' or '') .. zset end

-- wake_for says that something of q can depart at instant e: unless the watcher asks by
-- then, it is woken. It is taken to ask at once, so that one wake is enough.
-- A watcher that is overdue is dead. While nobody watches everybody is woken,
-- four times a second at most. Of a pull queue those are told who ask for it. Without q it
-- is for whoever watches.
local function wake_for(e, q)
  if q and q.pull then
    if e < (tonumber(call('HGET', B .. 'q' .. q.nr, 'polled')) or 0) then
      wake(' ' .. q.name)
      call('HSET', B .. 'q' .. q.nr, 'polled', now)
    end
    return
  end
  if M.wid ~= '' and now >= M.wat + (M.wid == OFFERED and HORIZON / 2 or OVERDUE) then M.wid = '' end
  if M.wid == '' then
    if now >= M.wat then
      wake('')
      M.wat = now + OVERDUE
    end
  elseif M.wid ~= OFFERED and e < M.wat then
    wake(M.wid)
    M.wat = now
  end
end

-- check_expiry_keys is sound of the keys that have jobs which expire. It is for before the first
-- such job of a queue, too.
local function check_expiry_keys(nr)
  call('ZCARD', B .. 'T')
  call('ZCARD', B .. 'T' .. nr)
end

-- check_keys raises unless the keys of a queue are of the types that they must be.
local function check_keys(q)
  local nr = q.nr
  call('ZCARD', B .. 'w' .. nr)
  call('ZCARD', B .. 't' .. nr)
  call('HLEN', B .. 'f' .. nr)
  call('LLEN', B .. 'e' .. nr)
  call('LLEN', B .. 'r' .. nr)
  if q.expiring then check_expiry_keys(nr) end
end

-- load returns a queue's hot fields, or nil.
local QUEUE = { 'n', 'd', 'b', 'tat', 'rem', 'last', 'lc', 'lf', 'epoch', 'cap', 'size', 'turn', 'cmax', 'refn', 'paused',
  'lease', 'maxatt', 'rfor', 'rmax', 'rev', 'name', 'back', 'deferred', 'behind', 'hc', 'laned', 'also', 'pull', 'expiring', 'said', 'adapt', 'ruled', 'bytes', 'maxbytes' }

-- read_pause reads a field that is '1' or, in us, until when the queue is paused, which is till.
-- When that is over the queue still sleeps, until a reserve, or who changes it, has seen to
-- it: nothing else makes it due before or after, and lapsed is when it was over.
local function read_pause(q, field)
  q.asleep, q.paused, q.till, q.lapsed = field ~= '', field == '1', nil, nil
  local till = not q.paused and tonumber(field)
  if not till then return end
  if till > now then q.paused, q.till = true, till else q.lapsed = till end
end

-- Each makes a part of the script (see parts.lua) and goes on in the first function of it; nil where a script has no
-- such part.
local with_lanes, with_limits, with_receiver, with_rules, expire_due, visit_one, adapt_rate

local function load(nr)
  local v = call('HMGET', B .. 'q' .. nr, unpack(QUEUE))
  if not v[1] then return nil end
  local q = {
    nr = nr, n = tonumber(v[1]), d = tonumber(v[2]), b = tonumber(v[3]), tat = tonumber(v[4]), rem = tonumber(v[5]),
    last = tonumber(v[6]), lc = tonumber(v[7]), lf = tonumber(v[8]), epoch = v[9], cap = tonumber(v[10]), size = tonumber(v[11]),
    turn = tonumber(v[12]), cmax = tonumber(v[13]), refn = tonumber(v[14]), lease = tonumber(v[16]),
    maxatt = tonumber(v[17]), rfor = tonumber(v[18]), rmax = tonumber(v[19]), rev = tonumber(v[20]), name = v[21],
    back = tonumber(v[22]) or 0, deferred = tonumber(v[23]) or 0, behind = tonumber(v[24]) or 0,
    hc = tonumber(v[25]) or MAX_COST, laned = v[26], also = v[27], pull = v[28], expiring = v[29], said = v[30] ~= '' and v[30], adapt = v[31], ruled = v[32],
    bytes = tonumber(v[33]) or 0, maxbytes = tonumber(v[34]) or 0, changes = {},
  }
  if q.pull then
    call('ZCARD', B .. 'pa')
    call('ZCARD', B .. 'ps')
  end
  if v[15] ~= '' then read_pause(q, v[15]) end
  if q.laned and with_lanes then with_lanes(q) end
  if q.also and with_limits then with_limits(q) end
  if q.said and with_receiver then with_receiver(q) end
  return q
end

local function number_of(name) return call('HGET', B .. 'n', name) end

local function backlogged(q) return q.deferred + q.behind > 0 end

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
  if q.group and q.group ~= q then save(q.group) end
end

-- note_expiries notes when jobs of q expire that have come to wait, or to be scheduled: the instant and the id of
-- each, and the first instant. If it is the queue's first, it is something due for whoever
-- watches, but when quiet.
local function note_expiries(q, jobs, first, quiet)
  if not q.expiring then set(q, 'expiring', '1') end
  call('ZADD', B .. 'T' .. q.nr, unpack(jobs))
  if call('ZADD', B .. 'T', 'LT', 'CH', first, q.nr) == 0 then return end
  if M.te == 0 or first < M.te then M.te = first end
  if not quiet then wake_for(first) end
end

-- A job: 'L' or 'R', 7 bytes of the instant it was appended, then its body as it
-- came: 8 of stamp and the record (8 of fingerprint, 2 of cost, 1 of flags, then
-- what they say, see head_of). Once ended: 'E', 7 of the instant it ended, stamp,
-- fingerprint and cost, then ENDED and the reason; then, when dead, its timeline with 2
-- bytes of its length, and the record; when delivered, 5 of how long before that it had
-- departed, and 2 of the client's number.
local ENDED = '>BBI2c8I6I7I2'
local LIVE = { L = true, R = true }

-- JOB_BYTES is what a job takes beside its id and its record: queue.JobBytes. Of what is stored under its key
-- the kind, the instant and the stamp are no part of the record.
local JOB_BYTES, BEFORE_RECORD = 512, 16
local ANY_BYTES = 2 ^ 53 -- of a queue that nothing bounds in bytes

-- bytes_of is what a job takes of max_bytes, by what is stored under its key.
local function bytes_of(id, stored) return #id + stored - BEFORE_RECORD + JOB_BYTES end

-- byte_limit is the queue's max_bytes, or the share of the store that it has without one.
local function byte_limit(q)
  if q.maxbytes > 0 then return q.maxbytes end
  return M.share > 0 and M.share or ANY_BYTES
end

local function job_key(nr, id) return B .. 'j' .. nr .. ':' .. id end
local function time_at(job) return (unpack_('>I7', job, 2)) end
local function cost_of(job)
  local high, low = byte(job, 25, 26)
  return high * 256 + low
end
