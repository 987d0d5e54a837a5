-- needs: ended, page, stored
-- for lanes: lanes
--
-- Pages of the jobs of a queue in one state. A page p has the queue q and its number nr, the name, the state, or nil
-- for all ended jobs but dead ones, and rows by state. Each function begins at a place, or at the first job if it is
-- nil, and returns the place of the last job that it looked at if more may follow: turn, instant or 0; member; lane.
--
-- Eight entries a job: id, cost, attempts, appended, due, reason, the beginning of its record if that has a lane, a
-- priority or an expiry, its timeline as stored if it is dead, or its departure if it was delivered, 0 if that is
-- not known. In the place of due is the end of an ended job, and since when a held one is held.

local limit, effort = 0, 0 -- jobs that the call may still show, and look at
local prefix, onlyLane = '', '' -- of the ids; the only lane, by its digest
local SHOWN, NEXT_LANE = 4, 4 -- effort of showing a job, and of going to another lane
local PART = 200 -- jobs that one command looks at
local HEAD, FAILED = 1100, 512 + 6000 -- bytes of a dead job's reason and timeline
local FIXED = 42 + 1 + 128 -- bytes of a record without the lane's key, at most

local function matches(id) return sub(id, 1, #prefix) == prefix end

-- inLane reports whether a job may be shown, by its record, with its flags at that byte.
local function inLane(job, flags) return onlyLane == '' or lanes.headOf(job, flags).lane == onlyLane end

local function row(p, state, id, job, pos, attempts, appended, due, reason, past)
  local rows = p.rows[state]
  if not rows then
    rows = {}
    p.rows[state] = rows
  end
  local n, flags = #rows, byte(job, pos + 10)
  rows[n + 1], rows[n + 2], rows[n + 3], rows[n + 4], rows[n + 5], rows[n + 6] = id, costOf(job), attempts, appended,
    due, reason
  rows[n + 7], rows[n + 8] = '', past or ''
  if flags and flags >= EXPIRES then
    rows[n + 7] = sub(job, pos, bit.band(flags, LANE) == 0 and pos + FIXED or -1)
  end
  limit = limit - 1
end

-- addJob adds a job that holds a place, unless its key is another program's.
local function addJob(p, id, entry)
  effort = effort - SHOWN
  local job = redis.pcall('GETRANGE', jobKey(p.nr, id), 0, HEAD)
  if type(job) ~= 'string' or not LIVE[sub(job, 1, 1)] or #job < 28 or not inLane(job, 27) then return end
  local f = entry and unpackLease(entry) or { attempts = 0, due = 0, reason = '' }
  local state = p.state or f.state or S.waiting
  row(p, state, id, job, 17, f.attempts, timeAt(job), state ~= S.waiting and f.due or 0, f.reason)
end

-- addEnded adds an ended job, by what is stored of it.
local function addEnded(p, id, job)
  local e, pos = unpackEnded(job)
  if e.state ~= S.dead then
    if onlyLane ~= '' then return end
    pos = #job + 1
  elseif #job < pos + 11 or not inLane(job, pos + 10) then
    return
  end
  local past = e.timeline
  if e.state == S.delivered then past = e.departed or 0 end
  row(p, e.state, id, job, pos, e.attempts, e.appended, e.ended, e.reason, past)
end

-- endsAt reports whether the page ends with the job that was looked at last.
local function endsAt() return limit <= 0 or effort <= 0 end

-- byPlace goes through the members of a sorted set from a rank on, and shows those that match.
local function byPlace(p, key, from, show)
  while true do
    local most = min(prefix == '' and min(PART, limit) or PART, max(effort, 1))
    local found, ids, last = call('ZRANGE', key, from, from + most - 1), {}, 0
    for i, id in ipairs(found) do
      last = i
      if matches(id) then
        ids[#ids + 1] = id
        if #ids == limit then break end
      end
    end
    effort = effort - last
    if ids[1] then show(p, ids) end
    if last > 0 and endsAt() then return call('ZSCORE', key, found[last]), found[last], '' end
    if last == #found and last < most then return nil end
    from = from + last
  end
end

local function showSome(p, ids)
  for i, entry in ipairs(call('HMGET', B .. 'f' .. p.nr, unpack(ids))) do addJob(p, ids[i], entry) end
end

-- waiting goes through the lanes in order of digest, the lane without a key first, or through the only lane.
local function waiting(p, at, member, laneAt)
  local lane, from = onlyLane ~= '' and onlyLane or ZERO, 0
  if at then
    lane = laneAt
    if member ~= '' then from = rankAfter(lanes.waitingKey(p.q, lane), at, member) end
  end
  local nextLane = lanesAfter(p.q, lane)
  while true do
    local score, last = byPlace(p, lanes.waitingKey(p.q, lane), from, showSome)
    if score then return score, last, lane end
    lane, from = onlyLane == '' and nextLane(), 0
    if not lane then return nil end
    effort = effort - NEXT_LANE
    if endsAt() then return '0', '', lane end
  end
end

local function byInstant(p, key, at, member)
  return byPlace(p, key, at and rankAfter(key, at, member) or 0, showSome)
end

-- leased goes through the leases of all queues, by deadline. pageOf returns the page of a queue's jobs, by its number.
local function leased(pageOf, at, member)
  local L = B .. 'l'
  local from = at and rankAfter(L, at, member) or 0
  while true do
    local most = min(PART, max(effort, 1))
    local found = call('ZRANGE', L, from, from + most - 1, 'WITHSCORES')
    for i = 1, #found, 2 do
      local nr, id = string.match(found[i], '^([^:]*):(.*)$')
      local p = nr and matches(id) and pageOf(nr)
      if p then addJob(p, id, call('HGET', B .. 'f' .. nr, id)) end
      effort = effort - 1
      if endsAt() then return found[i + 1], found[i], '' end
    end
    if #found < 2 * most then return nil end
    from = from + most
  end
end

local function showDead(p, ids)
  for i, ref in ipairs(call('HMGET', B .. 'D:' .. p.name, unpack(ids))) do
    effort = effort - SHOWN
    local of = deadRef(ref)
    local job = of and redis.pcall('GETRANGE', jobKey(of, ids[i]), 0, HEAD + FAILED)
    if type(job) == 'string' and sub(job, 1, 1) == 'E' and #job > 53 and byte(job, 27) == S.dead
      and timeAt(job) + p.q.retentionFor > now then
      addEnded(p, ids[i], job)
    end
  end
end

local function listDead(p, at, member)
  local D = B .. 'd:' .. p.name
  return byPlace(p, D, at and rankAfter(D, at, member) or 0, showDead)
end

-- indexBefore returns the index of the entry before one in a list of ended jobs. If that entry is no longer there, it
-- was among the oldest.
local function indexBefore(list, entry)
  if #entry < 8 then return -1 end
  local instant = unpackStruct('>I7', entry)
  local first = firstAt(list, instant)
  for i, other in ipairs(call('LRANGE', list, first, firstAt(list, instant + 1) - 1)) do
    if other == entry then return first + i - 2 end
  end
  return first - 1
end

-- ended goes through the jobs that ended otherwise than dead, the last one to end first.
local function ended(p, at, member)
  local list = B .. 'e' .. p.nr
  local index = at and indexBefore(list, member) or call('LLEN', list) - 1
  while index >= 0 do
    local first = max(0, index - PART + 1)
    local entries = call('LRANGE', list, first, index)
    for i = #entries, 1, -1 do
      local time, id = sub(entries[i], 1, 7), sub(entries[i], 8)
      if unpackStruct('>I7', time) + p.q.retentionFor <= now then return nil end
      effort = effort - 1
      if matches(id) then
        effort = effort - SHOWN
        local job = redis.pcall('GETRANGE', jobKey(p.nr, id), 0, HEAD)
        -- The id may have been used again.
        if type(job) == 'string' and #job > 52 and sub(job, 1, 8) == 'E' .. time and byte(job, 27) ~= S.dead
          and (not p.state or byte(job, 27) == p.state) then
          addEnded(p, id, job)
        end
      end
      if endsAt() then return '0', entries[i], '' end
    end
    index = first - 1
  end
end
