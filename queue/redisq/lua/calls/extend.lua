#!lua flags=allow-oom
-- needs: leases, agenda
-- for lanes: lanestate
-- for limits: groups
-- for receiver: receiver
--
-- Extend leases that still stand. Each time that circuit.slow passes without an answer counts as a failure for the
-- circuit.
--
-- ARGV[2]  number of leases; for each: queue name, id, fence (8 bytes of epoch, 6 of number)
-- Returns  for each how long it still lasts in us, 0 if it is lost, or the text of an error; or, if a failure was
--          counted, {how long it lasts, for how long the queue stops by that, 1 if the circuit opened}

begin()
local out, queues = {}, {}

-- noteSlow calls receiver.noteSlow if the attempt that departed at that instant is slow, and puts a queue that stops by
-- that on the agenda again. Otherwise it returns nil.
local function noteSlow(q, departed)
  if not q.receiver then withReceiver(q) end
  if not receiver.isSlow(q, departed) then return nil end
  checkKeys(q)
  local stopped, opened = receiver.noteSlow(q)
  if stopped > 0 then
    local e = putOnAgenda(q)
    if e then wakeFor(e, q) end
  end
  return stopped, opened
end

local function extend(name, id, token)
  if queues[name] == nil then
    local nr = numberOf(name)
    queues[name] = nr and load(nr) or false
  end
  local q = queues[name]
  local entry = q and call('HGET', B .. 'f' .. q.nr, id)
  local f = entry and unpackLease(entry)
  if not f or f.state ~= S.leased or sub(entry, 18, 31) ~= token then return 0 end
  local lease, deadline = q.nr .. ':' .. id, now + q.lease
  -- A deadline never moves to an earlier instant. If it would, the former deadline stands.
  if call('ZADD', B .. 'l', 'GT', 'CH', deadline, lease) == 0 then
    deadline = tonumber(call('ZSCORE', B .. 'l', lease))
  end
  M.firstLease = min(M.firstLease, deadline)
  -- Other errors of its queue do not keep a lease from being extended.
  local ok, stopped, opened = pcall(noteSlow, q, f.due)
  return ok and stopped and { deadline - now, stopped, opened } or deadline - now
end

for i = 1, tonumber(ARGV[2]) do
  local ok, answer = pcall(extend, ARGV[3 * i], ARGV[3 * i + 1], ARGV[3 * i + 2])
  out[i] = ok and answer or errorText(answer)
end
for _, q in pairs(queues) do
  if q then save(q) end
end
finish()
return out
