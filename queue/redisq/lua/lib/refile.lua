-- needs: agenda
-- gives: fileAgain
--
-- Queues are filed again when the difference of the clocks has changed. Their places on the agenda and among the timers
-- are instants of the engine's clock, but some wait for an instant of the wall clock.

local REFILE_MOST = 100

-- followsWall reports whether the wall clock decides when jobs leave.
local function followsWall(q)
  if q.hours then return true end
  for _, l in ipairs(q.limits or {}) do
    if l.max > 0 then return true end
  end
  return false
end

-- fileOne files a queue sooner if the instant of the wall clock that it waits for is nearer. An instant that is further
-- away is noticed at the next visit.
local function fileOne(nr)
  local q = load(nr)
  if not q then return end
  checkKeys(q)
  local at = q.pausedUntil or q.pauseEndedAt
  if not q.asleep then at = tonumber(call('ZRANGE', B .. 't' .. nr, '0', '0', 'WITHSCORES')[2]) end
  if at and call('ZADD', agendaKey(q, 's'), 'LT', 'CH', at + skew, nr) == 1 then
    if not q.pull then M.firstTimer = min(M.firstTimer, at + skew) end
    wakeFor(at + skew, q)
  end
  if not followsWall(q) then return end
  if q.group and not q.pull then
    groups.fileMember(q)
  else
    local opens = nextDeparture(q)
    if call('ZADD', agendaKey(q, 'a'), 'XX', 'LT', 'CH', opens, nr) == 1 then wakeFor(opens, q) end
  end
  save(q)
end

-- fileAgain files some queues again, and over several calls all of them, if the difference has changed since it began.
local function fileAgain()
  if skew ~= M.filed then
    M.filed, M.filedAt, M.refiling = skew, now, 1
    call('HSET', B, 'refiled', '')
  end
  local from = call('HGET', B, 'refiled')
  local names = call('ZRANGEBYLEX', B .. 'N', (not from or from == '') and '-' or '(' .. from, '+', 'LIMIT', 0,
    REFILE_MOST)
  for _, name in ipairs(names) do
    local nr = numberOf(name)
    if nr then tryFor(nr, fileOne, nr) end
  end
  if #names < REFILE_MOST then M.refiling = 0 else call('HSET', B, 'refiled', names[#names]) end
end
