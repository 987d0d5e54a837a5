-- The partition: its clock, the run of its server, its totals, and its watcher.
--
-- Redis does not roll a script back, so a call checks the types of the keys that it will write before it writes the
-- first (invariant 10): begin() checks those of the partition, checkKeys() those of a queue. Frequent calls skip
-- checkKeys for plain queues, except at the queue's first visit after a reserve noticed a new run of the server, and in
-- appends and settlements between the two. Such a call reads each key that it needs before it writes. Numbers stay
-- below 2^53, where a double is exact.

-- errorText returns the error that pcall caught, as one line that begins with a code.
local function errorText(e)
  if type(e) == 'table' then return tostring(e.err) end
  return 'ERR ' .. tostring(e)
end

local M -- the fields of the partition's hash, see fields.go

-- begin reads the partition and its clock; for latest and known see look.
local function begin(latest, known)
  checkSlot()
  M = readPartition()
  if not M then raise('NOSTORE', B .. ' holds no penstock store') end
  if M.firstExpiry > 0 then call('ZCARD', B .. 'T') end
  look(M, latest, known)
  local latest = now + POLL + SECOND -- a later instant was planted, and would stop all visits
  if M.firstLease > latest then M.firstLease = now end
  if M.firstTimer > latest then M.firstTimer = now end
  if M.firstChore > latest then M.firstChore = now end
end

-- finish writes the partition, and further fields of its hash: names, each before its value.
local function finish(...)
  M.clockLast = now
  writePartition(M, ...)
end

local function publishWake(client)
  local prefix, partition = string.match(B, '^(.-){(%d+)}')
  call('PUBLISH', prefix .. ':wake', partition .. ' ' .. client)
end

-- wakeFor is called when a job of q can depart, or q needs a visit, from an instant on. Without q it is the partition
-- that needs one. It wakes the watcher unless the watcher asks by then anyway, and assumes that it asks at once: one
-- wakeup is enough. An overdue watcher is assumed to be dead. While no client watches, all are woken, at most four
-- times a second. For a pull queue it wakes the clients that asked for its jobs.
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
