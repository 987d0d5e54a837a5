-- The partition: its clock, the run of its server, its totals, and who watches it.
--
-- Redis does not roll a script back, so the types of the keys that a call will write are checked before it writes the
-- first (invariant 10): begin() looks at those of the partition, checkKeys() at those of a queue. Where calls are many
-- and a queue is plain, it is skipped but for the queue's first visit after a reserve noticed a new run of the server,
-- and for appends and settlements between the two; such a call reads each key that it needs before it writes. Numbers
-- stay below 2^53, where a double is exact.

-- errorText returns what pcall caught, as one line that begins with a code.
local function errorText(e)
  if type(e) == 'table' then return tostring(e.err) end
  return 'ERR ' .. tostring(e)
end

local M -- the fields of the partition's hash, see fields.go

-- begin reads the partition and its clock; latest is the last instant that the caller says the clock can show, if it
-- does.
local function begin(latest)
  checkSlot()
  M = readPartition()
  if not M then raise('NOSTORE', B .. ' holds no penstock store') end
  if M.firstExpiry > 0 then call('ZCARD', B .. 'T') end
  look(M, latest)
  local latest = now + POLL + SECOND -- none is ever later: else somebody planted it, and nothing would be looked at
  if M.firstLease > latest then M.firstLease = now end
  if M.firstTimer > latest then M.firstTimer = now end
  if M.firstChore > latest then M.firstChore = now end
end

-- finish writes the partition, and further fields of its hash: names, each before its value.
local function finish(...)
  M.clockLast = now
  writePartition(M, ...)
end

local function publish(channel, message)
  call('PUBLISH', sub(B, 1, string.find(B, '{', 1, true) - 1) .. channel, message)
end

local function publishWake(client) publish(':wake', string.match(B, '{(%d+)}') .. ' ' .. client) end

-- wakeFor is called when something of q can depart, or is to be looked at, from an instant on: the watcher is woken
-- unless it asks by then, and is taken to ask at once, so that one wake is enough. Without q it is the partition that
-- is to be looked at. A watcher that is overdue is dead; while nobody watches, everybody is woken, four times a second
-- at most. For a pull queue those are woken who asked for its jobs.
local function wakeFor(at, q)
  if q and q.pull then
    if at < (tonumber(call('HGET', B .. 'q' .. q.nr, 'pullersAskAt')) or 0) then
      publishWake(' ' .. q.name)
      call('HSET', B .. 'q' .. q.nr, 'pullersAskAt', now)
    end
    return
  end
  local patience = M.watcher == OFFERED and HORIZON / 2 or OVERDUE
  if M.watcher ~= '' and now >= M.watchUntil + patience then M.watcher = '' end
  if M.watcher == '' then
    if now >= M.watchUntil then
      publishWake('')
      M.watchUntil = now + OVERDUE
    end
  elseif M.watcher ~= OFFERED and at < M.watchUntil then
    publishWake(M.watcher)
    M.watchUntil = now
  end
end
