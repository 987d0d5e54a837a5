#!lua flags=allow-oom
-- needs: joblist, dead, overflow
--
-- Find the jobs of many queues by id, by the beginning of an id, or by lane.
--
-- ARGV[2..4]   id or its beginning, 1 if it is a whole id, the only lane as its digest or ''
-- ARGV[5..7]   first name, the name behind the last or '', limit
-- ARGV[8..12]  where the page before ended: name, or '' to begin or at the leased jobs; state; turn, instant or '';
--              member; lane
-- Returns  {groups, skew (see clock.lua), name, state, turn, instant or '', member, lane}, without the last five at the
--          end of the partition. Three entries a group: name, state, jobs as in joblist.lua; or name, -1, error

begin()
local id, exact, from, to = ARGV[2], ARGV[3] == '1', ARGV[5], ARGV[6]
local VISIT = 16 -- the effort of visiting a queue; that of looking up an id there is 1
limit, effort, onlyLane = tonumber(ARGV[7]), 1000, ARGV[4]
if not exact then prefix = id end
local name, state, at, member, laneAt = ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10]), ARGV[11], ARGV[12]
local ORDER = { S.waiting, S.scheduled, S.held, S.dead, S.delivered } -- queue.FindStates
local groups = {}

local function addGroups(p)
  for s, rows in pairs(p.rows) do
    groups[#groups + 1], groups[#groups + 2], groups[#groups + 3] = p.name, s, rows
  end
end

-- inRange reports whether the request is about a queue.
local function inRange(n) return not comesAfter(from, n) and (to == '' or comesAfter(to, n)) end

local SOME = 64 -- names that one command reads
local queues, withDead = { key = B .. 'N' }, { key = B .. 'Y' }

-- firstOf returns the first name of a set of names that was not taken yet.
local function firstOf(set, low)
  if not set.names or set.at > #set.names and #set.names == SOME then
    low = set.names and '(' .. set.names[SOME] or low
    set.names, set.at = call('ZRANGEBYLEX', set.key, low, to ~= '' and '(' .. to or '+', 'LIMIT', 0, SOME), 1
    set.numbers = set == queues and set.names[1] and call('HMGET', B .. 'n', unpack(set.names)) or {}
  end
  return set.names[set.at]
end

-- nameFrom returns the next name, of a queue or of dead jobs: the name, its number if there is a queue, and whether it
-- has dead jobs. The first call begins at low.
local function nameFrom(low)
  local q, d = firstOf(queues, low), firstOf(withDead, low)
  if q and d and q ~= d then
    if comesAfter(q, d) then q = nil else d = nil end
  end
  local nr
  if q then nr, queues.at = queues.numbers[queues.at], queues.at + 1 end
  if d then withDead.at = withDead.at + 1 end
  return q or d, nr or nil, d ~= nil
end

-- leasedOfAll looks at the leased jobs of all queues, and returns the place where the page ends, if there.
local function leasedOfAll()
  local pages = {}
  local score, last = leased(function(nr)
    if pages[nr] == nil then
      local ok, q = pcall(readQueue, nr)
      pages[nr] = ok and q and inRange(q.name)
        and { q = q, nr = nr, name = q.name, state = S.leased, rows = {} }
      if pages[nr] and onlyLane ~= '' then withLanes(q) end
    end
    return pages[nr]
  end, at, member)
  for _, p in pairs(pages) do
    if p then addGroups(p) end
  end
  return score and { '', 0, score, last, '' }
end

-- visit looks at the jobs of a name from the place on, and returns the place where the page ends, if there.
local function visit(nr, hasDead)
  effort = effort - VISIT
  local q = nr and readQueue(nr) or hasDead and retention(name)
  if not q then return nil end
  if q.laned or onlyLane ~= '' or q.size and q.size > 0 then withLanes(q) end
  local p, holds = { q = q, nr = nr, name = name, rows = {} }, nr and q.size > 0
  for _, s in ipairs(ORDER) do
    if state == 0 or state == s then
      local score, last, lane
      p.state = s ~= S.delivered and s or nil
      if s == S.dead then
        if hasDead then score, last, lane = listDead(p, at, member) end
      elseif s == S.delivered then
        if nr and onlyLane == '' then score, last, lane = ended(p, at, member) end
      elseif holds and s == S.waiting then
        score, last, lane = waiting(p, at, member, laneAt)
      elseif holds then
        score, last, lane = byInstant(p, B .. (s == S.held and 'K' or 't') .. nr, at, member)
      end
      state, at = 0, nil
      if score then
        addGroups(p)
        return { name, s, score, last, lane }
      end
    end
  end
  addGroups(p)
end

-- lookUp looks up the id under a name.
local function lookUp(nr, hasDead)
  effort = effort - 1
  local p = { nr = nr, name = name, rows = {} }
  if nr and call('EXISTS', jobKey(nr, id)) == 1 then
    p.q = load(nr)
    withLanes(p.q)
    local job, number, cancelled = remembered(p.q, id)
    if number then
      if onlyLane == '' then
        row(p, cancelled and S.cancelled or S.deferred, id, job, #job, 0, timeAt(job), 0, '')
      end
    elseif job and sub(job, 1, 1) == 'E' then
      addEnded(p, id, job)
    elseif job then
      addJob(p, id, call('HGET', B .. 'f' .. nr, id))
    end
    if job then return addGroups(p) end
  end
  p.q = hasDead and call('HEXISTS', B .. 'D:' .. name, id) == 1 and retention(name)
  if p.q then
    withLanes(p.q)
    showDead(p, { id })
    addGroups(p)
  end
end

local place, nr, hasDead
if name == '' then
  place = not exact and leasedOfAll()
  name, nr, hasDead = nameFrom(from ~= '' and '[' .. from or '-')
  state, at = 0, nil
else
  local begun = name
  name, nr, hasDead = nameFrom('[' .. name)
  if name ~= begun then state, at = 0, nil end
end
while name and not place do
  -- A queue with broken keys must not hide the others.
  local ok, ends = pcall(exact and lookUp or visit, nr, hasDead)
  if not ok then groups[#groups + 1], groups[#groups + 2], groups[#groups + 3] = name, -1, errorText(ends) end
  place = ok and ends
  if not place then
    name, nr, hasDead = nameFrom()
    state, at = 0, nil
    if name and endsAt() then place = { name, 0, '', '', '' } end
  end
end
return { groups, skew, unpack(place or {}) }
