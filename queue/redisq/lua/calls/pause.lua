#!lua flags=allow-oom
-- needs: changelog, agenda, pause
-- for lanes: lanestate
-- for limits: groups
-- for receiver: receiver
--
-- Pause or resume a queue. Resuming also ends the stop by its receiver.
--
-- ARGV[2..6]  name, '1' to pause or '' to resume, actor, reason, until when in us or ''
-- Returns  {1}, {0} if there is no such queue, or {2, now} if until is not within a year from now

local MAX_AHEAD, STOP_LIFTED = 366 * 86400 * SECOND, 'the stop by its receiver ended'

begin()
local nr = numberOf(ARGV[2])
local q = nr and load(nr)
if not q then return { 0 } end
local by, reason, till = ARGV[4], ARGV[5], tonumber(ARGV[6])
if till and (till <= wall or till > wall + MAX_AHEAD) then return { 2, wall } end
local paused = ARGV[3] == '1' and (till and ARGV[6] or '1') or ''
local Q = B .. 'q' .. nr
local wasBy, wasReason = unpack(call('HMGET', Q, 'pausedBy', 'pauseReason'))
local same = not q.paused and paused == '' or q.pause == paused and wasBy == who(by) and wasReason == reason
checkChangeKeys('queue', q.name, by)
for _, set in ipairs({ 'a', 's' }) do call('ZCARD', agendaKey(q, set)) end
local goesOn = paused == '' and q.receiver and receiver.resume(q)
if not same then logPauseEnd(q) end
if not same or goesOn then
  logChange('queue', q.name, wall, by, paused == '' and 'resumed' or 'paused', q.revision, q.revision,
    goesOn and STOP_LIFTED or '', reason, till or 0)
end
if not same then
  call('HSET', Q, 'pausedBy', who(by), 'pauseReason', reason, 'pausedSince', now)
  setPause(q, paused)
end
if not same or goesOn then
  if q.group == q then set(q, 'groupSince', now) end
  local e = putOnAgenda(q)
  if e then wakeFor(e, q) end
  if q.group == q then groups.wakeClaims(q) end
  save(q)
end
finish()
return { 1 }
