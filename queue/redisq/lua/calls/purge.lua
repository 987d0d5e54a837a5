#!lua flags=allow-oom
-- needs: changelog, answers, unsent, page, overflow
-- for lanes: lanestate
-- for limits: groups
-- for receiver: receiver
--
-- Cancel waiting or scheduled jobs: some of the jobs of a purge, which takes several calls.
--
-- ARGV[2..5]  name of this call, queue name, state, limit
-- ARGV[6]     the only lane to purge, as its digest; '' is all
-- ARGV[7..12] how far the call before came: until which turn, or '' to begin; then instant and id, or lane; actor;
--             detail for the logs
-- Returns  {-1} no such queue; or {jobs, until, instant, id, lane}, without the last four at the end

begin()
call('ZCARD', B .. 'o')
local answered = earlierAnswer(ARGV[2])
if answered then return answered end
local nr = numberOf(ARGV[3])
local q = nr and load(nr)
if not q then return { -1 } end
checkKeys(q)
withLanes(q)
loadOverflow(q)
checkChangeKeys('queue', q.name, ARGV[11])
local state, limit, only = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local untilTurn, at, member, laneAt = tonumber(ARGV[7]) or q.turn, tonumber(ARGV[8]) or 0, ARGV[9], ARGV[10]
local begins = ARGV[7] == ''
local MOST_LOOKED, CLASSES = 200, 9
local FIRST_TURN = CLASSES * PRIORITY_STEP

-- oldest returns the first jobs of a lane that the purge takes, in order of turn. If newer jobs are among the first, it
-- looks at each priority by itself, because a turn includes the priority.
local function oldest(W, count)
  local ids, first = {}, call('ZRANGE', W, 0, count - 1, 'WITHSCORES')
  for i = 1, #first, 2 do
    if FIRST_TURN + first[i + 1] % PRIORITY_STEP < untilTurn then ids[#ids + 1] = first[i] end
  end
  if 2 * #ids == #first then return ids end
  ids = {}
  for priority = CLASSES, 0, -1 do
    local left = count - #ids
    if left <= 0 then break end
    local least, below = (CLASSES - priority) * PRIORITY_STEP, untilTurn - priority * PRIORITY_STEP
    for _, id in ipairs(call('ZRANGEBYSCORE', W, string.format('%.0f', least), string.format('(%.0f', below), 'LIMIT',
      0, left)) do
      ids[#ids + 1] = id
    end
  end
  return ids
end

-- waiting returns the jobs to purge, {lane, ids...}, and where the next call begins. All is read before anything is
-- written.
local function waiting()
  local lane, found, left = not begins and laneAt or only ~= '' and only or ZERO, {}, limit
  local nextLane = lanesAfter(q, lane)
  for _ = 1, MOST_LOOKED do
    local ids = oldest(lanes.waitingKey(q, lane), left)
    if ids[1] then found[#found + 1] = { lane = lane, ids = ids } end
    left = left - #ids
    if left == 0 then return found, { 0, '', lane } end
    lane = only == '' and nextLane()
    if not lane then return found end
  end
  return found, { 0, '', lane }
end

local function scheduled()
  local T = B .. 't' .. nr
  local from = begins and 0 or rankAfter(T, at, member)
  local looked, ids, taken = call('ZRANGE', T, from, from + limit - 1, 'WITHSCORES'), {}, {}
  for i = 1, #looked, 2 do ids[#ids + 1] = looked[i] end
  if not ids[1] then return {} end
  for i, entry in ipairs(call('HMGET', B .. 'f' .. nr, unpack(ids))) do
    if not entry or FIRST_TURN + unpackLease(entry).turn % PRIORITY_STEP < untilTurn then taken[#taken + 1] = ids[i] end
  end
  return { { ids = taken } }, #ids == limit and { looked[#looked], ids[#ids], '' } or nil
end

local found, rest
if state == S.waiting then found, rest = waiting() else found, rest = scheduled() end
local jobs = endUnsent(q, found, S.cancelled)
logJobAct(q, ARGV[11], 'purged', ARGV[12], '', jobs)
save(q)
finish()
return keepAnswer(ARGV[2], rest and { jobs, untilTurn, unpack(rest) } or { jobs })
