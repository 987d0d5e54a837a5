#!lua flags=allow-oom
-- needs: ended, page, stored
-- for lanes: lanes
--
-- List jobs in one state.
--
-- ARGV[2..4]  queue name, state, limit
-- ARGV[5]     the only lane to list, as its digest; '' is all
-- ARGV[6..8]  where the page before ended: turn or instant, or '' to begin; member; lane
-- Returns  0 no such queue; or {jobs, skew (see clock.lua), turn or instant, member, lane}, without the last three at
--          the end.
--          Eight entries a job: id, cost, attempts, appended, due, departure, end or held since, reason, the beginning
--          of its record if that has a lane, a priority or an expiry, its timeline as stored if it is dead

begin()
local state = tonumber(ARGV[3])
local nr = numberOf(ARGV[2])
local q = nr and load(nr)
if q then
  checkKeys(q)
  withLanes(q)
elseif state == S.dead then
  q = retention(ARGV[2])
end
if not q then return 0 end
local limit, only = tonumber(ARGV[4]), ARGV[5]
local at, member, laneAt = tonumber(ARGV[6]), ARGV[7], ARGV[8]
local MOST_LOOKED = 1000 -- leases or lanes that a call looks at
local HEAD, FAILED = 1100, 512 + 6000 -- bytes of a dead job's reason and timeline
local FIXED = 42 -- bytes of a record without the lane's key, at most
local F, rows = B .. 'f' .. (nr or ''), {}

local function row(id, job, pos, attempts, appended, due, reason, past)
  local n, flags = #rows, byte(job, pos + 10)
  rows[n + 1], rows[n + 2], rows[n + 3], rows[n + 4], rows[n + 5], rows[n + 6] = id, costOf(job), attempts, appended,
    due, reason
  rows[n + 7], rows[n + 8] = '', past or ''
  if flags and flags >= EXPIRES then
    rows[n + 7] = sub(job, pos, bit.band(flags, LANE) == 0 and pos + FIXED or -1)
  end
end

-- show adds a job that holds a place, unless its key is another program's.
local function show(id, entry)
  local job = redis.pcall('GETRANGE', jobKey(nr, id), 0, HEAD)
  if type(job) ~= 'string' or not LIVE[sub(job, 1, 1)] or #job < 28 then return end
  local f = entry and unpackLease(entry) or { attempts = 0, due = 0, reason = '' }
  row(id, job, 17, f.attempts, timeAt(job), state ~= S.waiting and f.due or 0, f.reason)
end

local function showAll(ids)
  if not ids[1] then return end
  local entries = call('HMGET', F, unpack(ids))
  for i, id in ipairs(ids) do show(id, entries[i]) end
end

-- members returns up to count members of a set from a rank on, and the score of the last.
local function members(key, from, count)
  local found, ids = call('ZRANGE', key, from, from + count - 1, 'WITHSCORES'), {}
  for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
  return ids, found[#found]
end

local function waiting()
  local lane, from, left = only ~= '' and only or ZERO, 0, limit
  if at then
    lane = laneAt
    if member ~= '' then from = rankAfter(lanes.waitingKey(q, lane), at, member) end
  end
  local nextLane = lanesAfter(q, lane)
  for _ = 1, MOST_LOOKED do
    local ids, score = members(lanes.waitingKey(q, lane), from, left)
    showAll(ids)
    left, from = left - #ids, 0
    if left == 0 then return { rows, score, ids[#ids], lane } end
    lane = only == '' and nextLane()
    if not lane then return { rows } end
  end
  return { rows, '0', '', lane }
end

-- byInstant lists the jobs in a set that is ordered by an instant.
local function byInstant(key)
  local ids, score = members(key, at and rankAfter(key, at, member) or 0, limit)
  showAll(ids)
  if #ids < limit then return { rows } end
  return { rows, score, ids[#ids], '' }
end

local function dead()
  checkDeadKeys(q.name)
  local D = B .. 'd:' .. q.name
  local ids, score = members(D, at and rankAfter(D, at, member) or 0, limit)
  local numbers = ids[1] and call('HMGET', B .. 'D:' .. q.name, unpack(ids))
  for i, id in ipairs(ids) do
    local of = deadRef(numbers[i])
    local job = of and redis.pcall('GETRANGE', jobKey(of, id), 0, HEAD + FAILED)
    if type(job) == 'string' and sub(job, 1, 1) == 'E' and #job > 53 and timeAt(job) + q.retentionFor > now then
      local e, pos = unpackEnded(job)
      if e.state == S.dead then row(id, job, pos, e.attempts, e.appended, e.ended, e.reason, e.timeline) end
    end
  end
  if #ids < limit then return { rows } end
  return { rows, score, ids[#ids], '' }
end

-- leased goes through the leases of all queues, by deadline.
local function leased()
  local L, prefix = B .. 'l', nr .. ':'
  local from = at and rankAfter(L, at, member) or 0
  local found, ids, last = call('ZRANGE', L, from, from + MOST_LOOKED - 1, 'WITHSCORES'), {}, nil
  for i = 1, #found, 2 do
    last = i
    if sub(found[i], 1, #prefix) == prefix then ids[#ids + 1] = sub(found[i], #prefix + 1) end
    if #ids == limit then break end
  end
  showAll(ids)
  if not last or #ids < limit and #found < 2 * MOST_LOOKED then return { rows } end
  return { rows, found[last + 1], found[last], '' }
end

local LIST = { [S.waiting] = waiting, [S.dead] = dead, [S.leased] = leased }
local STANDING = { [S.scheduled] = B .. 't', [S.held] = B .. 'K' }
local answer = LIST[state] and LIST[state]() or byInstant(STANDING[state] .. nr)
finish()
table.insert(answer, 2, skew)
return answer
