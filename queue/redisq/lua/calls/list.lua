#!lua flags=allow-oom
-- needs: joblist, hasdead
--
-- List jobs in one state.
--
-- ARGV[2..4]  queue name, state, limit
-- ARGV[5]     the only lane to list, as its digest; '' is all
-- ARGV[6..8]  where the page before ended: turn or instant, or '' to begin; member; lane
-- Returns  0 no such queue; or {jobs, skew (see clock.lua), turn or instant, member, lane}, without the last three at
--          the end; jobs as in joblist.lua

begin()
local name, state = ARGV[2], tonumber(ARGV[3])
local nr = numberOf(name)
local q = nr and load(nr)
if q then
  checkKeys(q)
  withLanes(q)
elseif state == S.dead then
  q = retention(name)
end
if not q or not q.nr and not hasDead(q) then return 0 end
if state == S.dead then checkDeadKeys(name) end
limit, effort, onlyLane = tonumber(ARGV[4]), 3000, ARGV[5]
local at, member, laneAt = tonumber(ARGV[6]), ARGV[7], ARGV[8]
local p = { q = q, nr = nr, name = name, state = state, rows = {} }

local LIST = { [S.waiting] = waiting, [S.dead] = listDead, [S.delivered] = ended, [S.cancelled] = ended,
  [S.expired] = ended }
local STANDING = { [S.scheduled] = B .. 't', [S.held] = B .. 'K' }
local score, last, lane
if state == S.leased then
  score, last, lane = leased(function(of) return of == nr and p end, at, member)
elseif STANDING[state] then
  score, last, lane = byInstant(p, STANDING[state] .. nr, at, member)
else
  score, last, lane = LIST[state](p, at, member, laneAt)
end
finish()
return { p.rows[state] or {}, skew, score, last, lane }
