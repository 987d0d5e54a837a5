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
local VISIT, LOOKUP = 16, 3 -- the effort of visiting a queue, and of looking up an id there
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

-- nameFrom returns the first name behind one, of a queue or of dead jobs, or nil. Behind '' it is the first of all.
local function nameFrom(n)
  local low, high = n ~= '' and '(' .. n or from ~= '' and '[' .. from or '-', to ~= '' and '(' .. to or '+'
  local first
  for _, key in ipairs({ B .. 'N', B .. 'Y' }) do
    local found = call('ZRANGEBYLEX', key, low, high, 'LIMIT', 0, 1)[1]
    if found and (not first or comesAfter(first, found)) then first = found end
  end
  return first
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
local function visit()
  effort = effort - VISIT
  local nr = numberOf(name)
  local q = nr and load(nr) or retention(name)
  if not q then return nil end
  if nr then checkKeys(q) end
  withLanes(q)
  local p = { q = q, nr = nr, name = name, rows = {} }
  for _, s in ipairs(ORDER) do
    if state == 0 or state == s then
      local score, last, lane
      p.state = s ~= S.delivered and s or nil
      if s == S.dead then
        score, last, lane = listDead(p, at, member)
      elseif nr and s == S.waiting then
        score, last, lane = waiting(p, at, member, laneAt)
      elseif nr and s ~= S.delivered then
        score, last, lane = byInstant(p, B .. (s == S.held and 'K' or 't') .. nr, at, member)
      elseif nr and onlyLane == '' then
        score, last, lane = ended(p, at, member)
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
local function lookUp()
  effort = effort - LOOKUP
  local nr = numberOf(name)
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
  if call('HEXISTS', B .. 'D:' .. name, id) == 1 then
    p.q = retention(name)
    if p.q then
      withLanes(p.q)
      showDead(p, { id })
      addGroups(p)
    end
  end
end

local place
if name == '' then
  place = not exact and leasedOfAll()
  name, state, at = nameFrom(''), 0, nil
end
while name and not place do
  -- A queue with broken keys must not hide the others.
  local ok, ends = pcall(exact and lookUp or visit)
  if not ok then groups[#groups + 1], groups[#groups + 2], groups[#groups + 3] = name, -1, errorText(ends) end
  place = ok and ends
  if not place then
    name, state, at = nameFrom(name), 0, nil
    if name and endsAt() then place = { name, 0, '', '', '' } end
  end
end
return { groups, skew, unpack(place or {}) }
