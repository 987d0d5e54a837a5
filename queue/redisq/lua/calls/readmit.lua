#!lua
-- needs: readmitoutcomes, memory, ended, overflow, room, agenda, stored
-- for batches: batches
-- for lanes: lanestate
-- for limits: groups
-- for receiver: receiver
-- for expiry: expiry
--
-- Readmit jobs from the overflow, in its order, as far as there is room.
--
-- ARGV[2..10]  queue name, holder, for how long in us, overflow, how many more jobs follow, '1' if closed, '1' if the
--              overflow was empty, longest time on the way there in us, '1' to leave, when the jobs that follow were
--              counted, in us
-- ARGV[12]     number of jobs; for each: id, order, ticket, when it was deferred, '1' if done, reason if it is too
--              late, record, or '' if it is no job
-- Returns  0 if the queue is unknown; {for how long another process is the holder in us, now}; or {0, now, order, room,
--          batch, deferred, behind, given up, outcomes}, the outcomes up to the first that is not final
--
-- Redis refuses this script while Redis is out of memory.

begin()
call('ZCARD', B .. 'o')
call('ZCARD', B .. 'y')
local holder, span, store, behind, closed, empty, onTheWay, leave, asOf =
  ARGV[3], tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6]), ARGV[7] == '1', ARGV[8] == '1', tonumber(ARGV[9]),
    ARGV[10] == '1', tonumber(ARGV[11])
if tonumber(ARGV[12]) > 0 and memoryFull() then raise('OOM', NEARLY_OUT) end
if M.firstExpiry > 0 and M.firstExpiry <= wall then expireDue() end
local nr = numberOf(ARGV[2])
local q = nr and load(nr)
if not q then return 0 end
checkKeys(q)
checkDeadKeys(q.name)
loadOverflow(q)
local heldBy, heldUntil, known, order, maxAge, announced = unpack(call('HMGET', B .. 'q' .. nr, 'holder',
  'holderUntil', 'overflowId', 'order', 'deferred.max_age.text', 'announced'))
heldUntil, announced = tonumber(heldUntil) or 0, tonumber(announced)
if heldBy and heldBy ~= '' and heldBy ~= holder and heldUntil > now then return { heldUntil - now, now } end
order = known == store and tonumber(order) or 0

withLanes(q)
local W, time = B .. 'w' .. nr, pack('>I7', now)
local waiting, room = call('ZCARD', W), nextDeparture(q)
local outcomes, dropped, dead, returned, waitsFor = {}, {}, {}, 0, nil
local NO_STAMP = string.rep('\0', 8)

-- decide returns the outcome for a job, and writes nothing. It also returns the record known under its id, whether that
-- was cancelled, and the record of the job with the batch that counts it.
local function decide(id, number, ticket, at, done, record)
  if number <= order then return PASSED end
  if not done then
    local incarnation = string.match(ticket, '^(.+)%.%d+$')
    if ticket ~= '' and incarnation ~= nr then return ORPHANED end
    if record == '' then return UNREADABLE end
  end
  local old, deferral, cancelled = remembered(q, id)
  if done then return PASSED, deferral and ticket == nr .. '.' .. deferral and old or nil, cancelled end
  if old then
    if sub(old, 17, 24) ~= sub(record, 1, 8) then return CLASH end
    if not deferral then return PASSED end
    if cancelled then return PASSED, old, cancelled end
  end
  local label = old and deferredBatch(q, old)
  -- This copy may have been stored under another batch, before the job was withdrawn or forgotten and appended anew.
  if label and batches.batchOf(q, label) then record = batches.withBatch(record, 11, label) end
  local h = lanes.headOf(record, 11)
  call('ZCARD', lanes.waitingKey(q, h.lane)) -- check its type
  lanes.checkKeysFor(q, h)
  if now - at > q.deferredMaxAge then return TOO_OLD, old, nil, record end
  if expiresAt(record, 11) <= wall then return TOO_LATE, old, nil, record end
  local need = bytesOf(id, #record + BEFORE_RECORD)
  if need > byteLimit(q) then return TOO_LARGE, old, nil, record end
  if closed or q.readmitted >= q.mark or q.size >= q.capacity then return NOT_YET end
  if not fitsReadmission(q, need) then
    waitsFor = need
    return NOT_YET
  end
  return RETURNED, old, nil, record
end

-- tooLarge returns the reason why a job can never come back.
local function tooLarge(id, record)
  return string.format('takes %.0f bytes, more than the max_bytes %.0f of its queue',
    bytesOf(id, #record + BEFORE_RECORD), byteLimit(q))
end

-- batchFor returns the batch that counts a job that comes back, or nil, and its record. A job that its batch does not
-- count as deferred is appended at an instant, unless its deferral was given up: then its batch counts it as missing.
-- Without room for its batch a job loses its label.
local function batchFor(old, record, at, givenUp, since)
  local label = old and deferredBatch(q, old)
  if label and batches.batchOf(q, label) then return batches.batchOf(q, label), record end
  if byte(record, 11) % COSTS < BATCHED then return nil, record end
  withBatches(q)
  label = batches.batchAt(record, 11)
  if not label then return nil, record end
  if not batches.batchFits(q, label) then return nil, batches.withBatch(record, 11) end
  if givenUp then return batches.rejoinBatch(q, label, nil, since, at), record end
  return batches.joinBatch(q, label, at), record
end

-- apply carries out an outcome. old is the record of a deferral that ends with it; givenUp says that it was given
-- up before.
local function apply(id, outcome, old, cancelled, at, done, late, record, givenUp)
  local key, stamp = jobKey(nr, id), old and sub(old, 9, 16) or NO_STAMP
  if outcome == RETURNED then
    local b
    b, record = batchFor(old, record, now, givenUp, at)
    call('SET', key, 'R' .. time .. stamp .. record)
    local high, low = byte(record, 9, 10)
    local h, bytes = lanes.headOf(record, 11), bytesOf(id, #record + BEFORE_RECORD)
    if b then batches.noteLast(b, h, id, q.turn - h.priority * PRIORITY_STEP) end
    lanestate.enterLane(q, id, h, high * 256 + low, call('ZCARD', lanes.waitingKey(q, h.lane)), bytes)
    set(q, 'readmitted', q.readmitted + 1)
    set(q, 'readmittedBytes', q.readmittedBytes + bytes)
    took(bytes)
    returned = returned + 1
  elseif outcome == TOO_OLD or outcome == TOO_LATE or outcome == TOO_LARGE then
    local reason = outcome == TOO_LATE and late or outcome == TOO_LARGE and tooLarge(id, record)
      or 'deferred for longer than max_age ' .. (maxAge or '')
    local f, b = { attempts = 0, epoch = NOBODY, fence = 0, reason = reason }, nil
    b, record = batchFor(old, record, at, givenUp, at)
    if b then batches.endInBatch(q, b.label, id, S.dead) end
    local ended = endedRecord(stamp .. sub(record, 1, 10), f, S.dead, 0, at)
    call('SET', key, ended .. record, 'PX', ceil(q.retentionFor / 1000))
    dead[#dead + 1], deadBytes[key] = id, bytesOf(id, #record + BEFORE_RECORD)
  elseif old and done then
    call('UNLINK', key)
    local label = not cancelled and deferredBatch(q, old)
    if label then batches.endInBatch(q, label, id) end
  elseif old then
    local f = { attempts = 0, epoch = NOBODY, fence = 0, reason = '' }
    call('SET', key, endedRecord(sub(old, 9, 26), f, S.cancelled, 0, timeAt(old)), 'PX', ceil(q.retentionFor / 1000))
    dropped[#dropped + 1] = id
  end
  -- A canceled job was uncounted when it was canceled.
  if old and not cancelled then uncountDeferral(q, old) end
end

local arg, count, final, seen = 13, tonumber(ARGV[12]), 0, empty and now or 0
for i = 1, count do
  local id, number, ticket, at, done, late, record =
    ARGV[arg], tonumber(ARGV[arg + 1]), ARGV[arg + 2], tonumber(ARGV[arg + 3]), ARGV[arg + 4] == '1', ARGV[arg + 5],
      ARGV[arg + 6]
  arg = arg + 7
  local ok, outcome, old, cancelled, labelled = pcall(decide, id, number, ticket, at, done, record)
  -- If a job is done it does not matter what has its key.
  if not ok then outcome, old = done and PASSED or UNREADABLE, nil end
  outcomes[i] = outcome
  -- A ticket of this queue dates from this clock: it says when the job was deferred last.
  local of, deferral = string.match(ticket, '^(.+)%.(%d+)$')
  if of == nr then seen = min(at, now) end
  if outcome == NOT_YET or outcome > TOO_LATE and outcome ~= TOO_LARGE then break end
  apply(id, outcome, old, cancelled, at, done, late, labelled or record, of == nr and tonumber(deferral) <= q.givenUpTo)
  order, final = max(order, number), i
end

if returned > 0 then
  add(q, 'appended', returned)
  add(q, 'returned', returned)
  if q.laned or q.group then
    lanestate.putOnAgendaSooner(q)
  elseif waiting == 0 and not q.asleep then
    call('ZADD', agendaKey(q, 'a'), 'LT', room, nr)
    wakeFor(room, q)
  end
end
rememberEnded(q, dropped)
rememberDead(q, dead)
behind = behind + count - final
-- The caller may not have seen a job that was announced later.
if announced and asOf <= announced then behind = max(behind, min(q.behind, 1)) end
set(q, 'behind', behind)
if count > 0 or empty then set(q, 'headNeeds', waitsFor or 0) end
local missing = nextGeneration(q, seen, onTheWay)
trackBacklog(q)
set(q, 'announcedAt', 0)
set(q, 'holder', leave and '' or holder)
set(q, 'holderUntil', leave and 0 or now + span)
set(q, 'overflowId', store)
set(q, 'order', order)
save(q)
finish()
return { 0, now, order, overflowRoom(q), readmitBatch(q), q.deferred, q.behind, missing, outcomes }
