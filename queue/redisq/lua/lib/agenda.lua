-- needs: pace
--
-- The agenda: when each queue is next due for a visit. The members of a group have places in the group (see
-- groups.lua), and the group has one on the agenda.

-- putOnAgenda writes when a queue is next worth a visit, and returns that instant. The agenda has the instant at which
-- the first waiting job can depart. The timers have the first instant at which a scheduled job is due, a lane has
-- rested (if no other lane can go on before), or the pause ends.
--
-- back is 'LT' if a job came back to the waiting ones. The queue could have departed since an earlier instant on the
-- agenda, so that instant stays. back is 'NX' if its timer was due at the instant since: it could depart since then.
local function putOnAgenda(q, back, since)
  local departs, ripens
  if q.asleep then
    ripens = q.pausedUntil or q.pauseEndedAt
    if ripens then ripens = ripens + skew end
  else
    ripens = q.firstDue
    if ripens == nil then ripens = tonumber(call('ZRANGE', B .. 't' .. q.nr, '0', '0', 'WITHSCORES')[2]) end
    if ripens then ripens = ripens + skew end
    local from = -math.huge
    if q.laned then
      from = lanestate.lanesResumeAt(q)
    elseif q.waits == false or q.waits == nil and call('ZCARD', B .. 'w' .. q.nr) == 0 then -- or nil: unknown
      from = nil
    end
    if from then
      -- Only what delays the whole group delays the jobs of the parent itself.
      local own = q.group == q
      local stop = own and q.stop or -math.huge
      departs = own and max(now, stop) or nextDeparture(q)
      -- A lane that has rested by then is visited by its timer, like a job that is due. The rest may have ended while
      -- no limit and no hours delayed the queue, although they do now; before is the instant before that end.
      local before = from <= now and from - 1 or nil
      if from > (back == 'LT' and (own and stop or readyAt(q, before)) or departs) then
        ripens, departs = min(ripens or from, from), nil
      elseif since then
        departs = max(since, own and stop or readyAt(q, since))
      end
    end
  end
  if q.group and not q.pull then
    departs = groups.placeMember(q, departs, back)
  elseif not departs then
    call('ZREM', agendaKey(q, 'a'), q.nr)
  elseif back then
    call('ZADD', agendaKey(q, 'a'), back, departs, q.nr)
  else
    call('ZADD', agendaKey(q, 'a'), departs, q.nr)
  end
  if q.group and q.pull then departs = groups.placePulled(q, departs) end
  if not ripens then
    if q.timer ~= false then call('ZREM', agendaKey(q, 's'), q.nr) end -- false if a visit saw that it has no timer
  else
    call('ZADD', agendaKey(q, 's'), ripens, q.nr)
    q.timer = nil
    if not q.pull then M.firstTimer = min(M.firstTimer, ripens) end
  end
  return departs and min(departs, ripens or departs) or ripens
end

-- waitAgain returns a granted or scheduled job to its lane; f is its lease record.
local function waitAgain(q, id, f)
  if q.laned then return lanestate.putBack(q, id, f) end
  call('ZADD', B .. 'w' .. q.nr, f.turn, id)
  M.waiting = M.waiting + 1
end

-- trackDeadline is trackDeadlines for a job that was leased, if it expires at all.
local function trackDeadline(q, id, quiet)
  local head = q.expiring and redis.pcall('GETRANGE', jobKey(q.nr, id), 26, 33)
  if type(head) ~= 'string' or #head < 8 or byte(head) % (2 * EXPIRES) < EXPIRES then return end
  local at = unpackStruct('>I7', head, 2)
  trackDeadlines(q, { at, id }, at, quiet)
end
