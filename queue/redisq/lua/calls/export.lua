#!lua flags=allow-oom
-- needs: held, ended, page, stored
-- for lanes: lanes
--
-- Read a page of a queue's jobs with everything that the store keeps of them, or what an export needs of the queue.
--
-- ARGV[2]     queue name
-- ARGV[3..5]  state, limit of jobs, limit of bytes; delivered stands for all ended jobs but dead ones, 0 for the queue
-- ARGV[6..8]  where the page before ended: turn, instant or index, or '' to begin; member; lane
-- Returns  0 no such queue; for the queue {turn, max cost, mark of an import or '', 1 if it is not closed}; else {jobs,
--          where it ended, member, lane}, without the last three at the end. Eleven entries a job: id, state (0: it is
--          not what the store wrote), turn, appended, due, held since or ended, attempts, reason, marks (1 readmitted,
--          2 it blocks its lane), what became of its lease (1 stands, 2 ran out), timeline as stored, record; of ended
--          jobs but dead ones fingerprint and cost only

begin()
local nr = numberOf(ARGV[2])
local q = nr and load(nr)
if not q then return 0 end
if ARGV[3] == '0' then
  local mark, open, maxCost = unpack(call('HMGET', B .. 'q' .. nr, 'importMark', 'importOpen', 'groupMaxCost'))
  return { q.turn, max(q.maxCost, tonumber(maxCost) or 0), mark or '', open == '1' and 1 or 0 }
end
checkKeys(q)
withLanes(q)
local state, most, mostBytes = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local at, member, laneAt = tonumber(ARGV[6]), ARGV[7], ARGV[8]
local MOST_LOOKED = 1000 -- leases or lanes that a call looks at
local LEASE_HELD, LEASE_RAN_OUT = 1, 2
local unknown = onUnknown(nr)
local F, rows, bytes, count = B .. 'f' .. nr, {}, 0, 0

local function row(...)
  local n = #rows
  for i, v in ipairs({ ... }) do rows[n + i] = v end
  count = count + 1
end

local function full() return count >= most or bytes >= mostBytes end

local function broken(id) row(id, 0, 0, 0, 0, 0, '', 0, 0, '', '') end

-- read returns what the key of a job has, nil if that cannot be a job.
local function read(id, of)
  local job = redis.pcall('GET', jobKey(of or nr, id))
  if type(job) ~= 'string' or #job < 26 then return nil end
  bytes = bytes + #job
  return job
end

-- show adds a job that holds a place, with its turn or instant. A job without a lease record gets a turn behind all
-- others, as in restoredLease.
local function show(id, entry, turn)
  local job = read(id)
  if not job or not LIVE[sub(job, 1, 1)] or #job < 28 then return broken(id) end
  local f = entry and unpackLease(entry) or { state = state, attempts = 0, due = 0, reason = '' }
  if state == S.leased and f.state ~= S.leased then return end -- it is no longer in flight
  local to, due, lease, marks = S.waiting, 0, 0, sub(job, 1, 1) == 'R' and 1 or 0
  if state == S.scheduled or state == S.held then
    to, due = state, turn
    if f.inFlight then marks = marks + 2 end
  end
  turn = state == S.waiting and turn or f.turn or q.turn - lanes.headOf(job, 27).priority * PRIORITY_STEP
  if state == S.leased then
    lease = LEASE_HELD
    local deadline = tonumber(call('ZSCORE', B .. 'l', nr .. ':' .. id))
    if not deadline or deadline <= now then lease = LEASE_RAN_OUT end
    if lease == LEASE_RAN_OUT or unknown ~= '' then
      endAttemptUnknown(f, unknown)
      if unknown == 'hold' then
        to, due = S.held, now
      elseif unknown == 'dead' or f.attempts >= q.maxAttempts then
        to, due = S.dead, now
      end
    end
  end
  row(id, to, turn, timeAt(job), due, f.attempts, f.reason, marks, lease, f.timeline or '', sub(job, 17))
end

-- page shows members of a set from a rank on. It returns the last one and its score if there are more.
local function page(key, from, showOne)
  while true do
    local found, ids = call('ZRANGE', key, from, from + min(50, most - count) - 1, 'WITHSCORES'), {}
    if not found[1] then return nil end
    for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
    local entries = call('HMGET', F, unpack(ids))
    for i, id in ipairs(ids) do
      showOne(id, entries[i], tonumber(found[2 * i]))
      if full() then return id, found[2 * i] end
    end
    from = from + #ids
  end
end

local function waiting()
  local lane, from = at and laneAt or ZERO, 0
  if at and member ~= '' then from = rankAfter(lanes.waitingKey(q, lane), at, member) end
  local nextLane = lanesAfter(q, lane)
  for _ = 1, MOST_LOOKED do
    local id, turn = page(lanes.waitingKey(q, lane), from, show)
    if id then return { rows, turn, id, lane } end
    lane, from = nextLane(), 0
    if not lane then return { rows } end
  end
  return { rows, '0', '', lane }
end

local function byInstant(key)
  local id, due = page(key, at and rankAfter(key, at, member) or 0, show)
  return id and { rows, due, id, '' } or { rows }
end

-- leased goes through the leases of all queues, by deadline.
local function leased()
  local L, prefix = B .. 'l', nr .. ':'
  local from = at and rankAfter(L, at, member) or 0
  local found = call('ZRANGE', L, from, from + MOST_LOOKED - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    if sub(found[i], 1, #prefix) == prefix then
      local id = sub(found[i], #prefix + 1)
      show(id, call('HGET', F, id))
    end
    if full() or i + 1 == 2 * MOST_LOOKED then return { rows, found[i + 1], found[i], '' } end
  end
  return { rows }
end

local function showDead(id)
  local job = read(id, (deadRef(call('HGET', B .. 'D:' .. q.name, id))))
  if not job then return end -- its retention has passed
  local ok, e, pos = pcall(unpackEnded, job)
  if sub(job, 1, 1) ~= 'E' or not ok or #job < pos + 11 then return broken(id) end
  if e.state ~= S.dead or e.ended + q.retentionFor <= now then return end
  row(id, S.dead, 0, e.appended, e.ended, e.attempts, e.reason, 0, 0, e.timeline or '', sub(job, pos))
end

local function dead()
  local D = B .. 'd:' .. q.name
  local id, diedAt = page(D, at and rankAfter(D, at, member) or 0, showDead)
  return id and { rows, diedAt, id, '' } or { rows }
end

-- ended goes through the list of jobs that ended otherwise than dead. It continues behind an index if the list still
-- has the same entry there, else behind the entry's instant.
local function ended()
  local list, index = B .. 'e' .. nr, 0
  if at then index = call('LINDEX', list, at) == member and at + 1 or firstAt(list, (unpackStruct('>I7', member))) end
  for _, entry in ipairs(call('LRANGE', list, index, index + most - 1)) do
    local id = sub(entry, 8)
    local job = redis.pcall('GETRANGE', jobKey(nr, id), 0, 600)
    if type(job) == 'string' and #job > 52 and sub(job, 1, 8) == 'E' .. sub(entry, 1, 7)
      and timeAt(job) + q.retentionFor > now then
      local e = unpackEnded(job)
      if e.state ~= S.dead then
        row(id, e.state, 0, e.appended, e.ended, e.attempts, e.reason, 0, 0, '', sub(job, 17, 26))
      end
    end
    member, index = entry, index + 1
  end
  if index >= call('LLEN', list) then return { rows } end
  return { rows, index - 1, member, '' }
end

local PAGES = { [S.waiting] = waiting, [S.dead] = dead, [S.leased] = leased, [S.delivered] = ended }
local STANDING = { [S.scheduled] = B .. 't', [S.held] = B .. 'K' }
local answer = PAGES[state] and PAGES[state]() or byInstant(STANDING[state] .. nr)
finish()
return answer
