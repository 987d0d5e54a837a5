-- A queue: its fields that nearly every call reads, and how changes are written back.

-- checkExpiryKeys is checkKeys for the keys of jobs that expire. It is also called before a queue gets its first such
-- job.
local function checkExpiryKeys(nr)
  call('ZCARD', B .. 'T')
  call('ZCARD', B .. 'T' .. nr)
end

local schedulingChecked -- whether checkKeys has checked the sets that all queues share

-- checkKeys raises unless the keys of a queue, the agenda, the timers and the leases have the right types.
local function checkKeys(q)
  local nr = q.nr
  if not schedulingChecked then
    call('ZCARD', B .. 'a')
    call('ZCARD', B .. 's')
    call('ZCARD', B .. 'l')
    schedulingChecked = true
  end
  call('ZCARD', B .. 'w' .. nr)
  call('ZCARD', B .. 't' .. nr)
  call('HLEN', B .. 'f' .. nr)
  call('LLEN', B .. 'e' .. nr)
  call('LLEN', B .. 'r' .. nr)
  if q.expiring then checkExpiryKeys(nr) end
end

-- agendaKey returns the key of the agenda ('a') or the timers ('s') that a queue stands on.
local function agendaKey(q, which) return B .. (q.pull and 'p' or '') .. which end

-- readPause reads a pause, which is '1' or, in us, until when the queue is paused. After its end the queue stays
-- asleep, until a reserve or a change of the queue wakes it: nothing else puts it back on the agenda. pauseEndedAt is
-- then when the pause ended.
local function readPause(q, field)
  q.asleep, q.paused, q.pausedUntil, q.pauseEndedAt = field ~= '', field == '1', nil, nil
  local till = not q.paused and tonumber(field)
  if not till then return end
  if till > wall then q.paused, q.pausedUntil = true, till else q.pauseEndedAt = till end
end

-- Each makes a part of the script (see parts.lua) and then calls the first function of that; nil if a script has no
-- such part.
local withLanes, withLimits, withReceiver, withRules, expireDue, visitOne, settleOne, adaptRate
local logLapse, writeAudit, announceRoom, makeRoom, refileSome, withBatches

-- load returns a queue by its number, or nil. See fields.go for its fields.
local function load(nr)
  local q = readQueue(nr)
  if not q then return nil end
  if q.pull then
    call('ZCARD', B .. 'pa')
    call('ZCARD', B .. 'ps')
  end
  if q.pause ~= '' then readPause(q, q.pause) end
  if q.laned and withLanes then withLanes(q) end
  if q.links and withLimits then withLimits(q) end
  if q.receiverText and withReceiver then withReceiver(q) end
  return q
end

local function numberOf(name) return call('HGET', B .. 'n', name) end

local function hasBacklog(q) return q.deferred + q.behind > 0 end

-- set changes a field of q. save writes it.
local function set(q, field, value)
  q[field] = value
  q.changes[field] = true
end

-- add adds to a counter. save writes it if the operation reads it with its queues.
local function add(q, field, by)
  if by == 0 then return end
  if q[field] then set(q, field, q[field] + by) else call('HINCRBY', B .. 'q' .. q.nr, field, by) end
end

local function save(q)
  local args, changes = { nil, nil, nil, nil, nil, nil }, q.changes -- with room for what most calls change
  packChanged(q, changes, args)
  for field in pairs(changes) do
    args[#args + 1] = field
    args[#args + 1] = q[field]
    changes[field] = nil
  end
  if args[1] then call('HSET', B .. 'q' .. q.nr, unpack(args)) end
  if q.keepBatches then q.keepBatches(q) end
  if q.group and q.group ~= q then save(q.group) end
end
