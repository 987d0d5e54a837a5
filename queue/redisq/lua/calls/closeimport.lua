#!lua flags=allow-oom
-- needs: counters, changelog, agenda, import, pause, learned
-- for lanes: lanestate
-- for limits: groups
-- for receiver: receiver
--
-- Close an import into a queue, which then continues.
--
-- ARGV[2..10]  name, mark of the import, revision, '1' if it was paused, or until when in us, pause reason; its bucket:
--              tat, rem, last, last cost
-- ARGV[11]     number of jobs it held when the counters were read
-- ARGV[12..15] who paused it and when; who closes it; detail for the logs
-- ARGV[16..]   its counters in order of COUNTERS; the number of its last errors and those, the oldest first; the number
--              of its limits, and for each tat, rem, last and last cost, or the end of its window, its use, 0, 0;
--              what its estimates have learned (learned.lua), or ''
-- Returns  0 no such queue; 1 it is not open for this import; 2 closed

begin()
local nr = numberOf(ARGV[2])
local q = nr and load(nr)
if not q then return 0 end
checkKeys(q)
local mark, open = importOf(nr)
if mark ~= ARGV[3] then return 1 end
if not open then return 2 end
checkChangeKeys('queue', q.name, ARGV[14])
local key = B .. 'q' .. nr

-- The exported counters count the jobs that were held then, but an export of a store in use misses some of these. So
-- appended is corrected to the jobs that were imported. Jobs that came in meanwhile are counted already.
local missed, is, arg = q.size + q.deferred - tonumber(ARGV[11]), countersOf(q), 16
for i, jobs in ipairs(COUNTS_JOBS) do missed = missed - jobs * is[i] end
for _, field in ipairs(COUNTERS) do
  add(q, field, tonumber(ARGV[arg]) + (field == 'appended' and missed or 0))
  arg = arg + 1
end
for i = arg + 1, arg + tonumber(ARGV[arg]) do
  call('LPUSH', B .. 'r' .. nr, ARGV[i])
  arg = i
end
call('LTRIM', B .. 'r' .. nr, 0, 9)

local learnedCosts = ARGV[continueFrom(q, 7, arg + 1)]
if learnedCosts ~= '' then restoreLearned(q, learnedCosts) end
saveBucket(q)
set(q, 'lastFence', 0)
-- The buckets of its lanes are unknown, so they are delayed, see bucketOf.
set(q, 'lanesUnknownSince', now)
set(q, 'maxCostAtOpen', q.maxCost)
-- A revision must stand for one spec only, here and in the store that the queue came from: keep the later of the two.
local last = tonumber(call('HGET', B, 'rev')) or 0
local was = q.revision
set(q, 'revision', max(q.revision, tonumber(ARGV[4])))
if q.revision > last then call('HSET', B, 'rev', q.revision) end
logChange('queue', q.name, wall, ARGV[14], 'imported', q.revision, was, ARGV[15], '', 0, q.size)
if q.revision ~= was then keepVersionAgain('queue', q.name, q.revision) end
if q.group == q then set(q, 'groupSince', now) end
call('HSET', key, 'importOpen', '', 'pauseReason', ARGV[6], 'pausedBy', ARGV[12], 'pausedSince', ARGV[13])
setPause(q, ARGV[5])
local e = putOnAgenda(q)
if e then wakeFor(e, q) end
if q.group == q then groups.wakeClaims(q) end
save(q)
finish()
return 2
