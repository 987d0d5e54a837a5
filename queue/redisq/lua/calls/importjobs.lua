#!lua
-- needs: import, importoutcomes, memory, ended, overflow, stored
-- for batches: batches
-- for lanes: lanestate
-- for limits: groups
-- for receiver: receiver
--
-- Import jobs into a queue that is open for the import. A job that is there already is skipped.
--
-- ARGV[2..4]  queue name, mark of the import, number of jobs; for each: id, state, turn, appended, due, held since or
--             ended, attempts, reason, marks (1 readmitted, 2 it blocks its lane), timeline as stored, record, or
--             fingerprint and cost of a job that ended otherwise than dead
-- Returns  0 no such queue; 1 it is not open for this import; or for each: its outcome, as move.Outcome, or the text of
--          an error
--
-- Redis refuses this script while Redis is out of memory.

begin()
local nr = numberOf(ARGV[2])
local q = nr and load(nr)
if not q then return 0 end
local mark, open = importOf(nr)
if mark ~= ARGV[3] or not open then return 1 end
if memoryFull() then raise('OOM', NEARLY_OUT) end
checkKeys(q)
checkDeadKeys(q.name)
call('ZCARD', B .. 'K' .. nr)
withLanes(q)
loadOverflow(q)
local ends, death = {}, nil -- ended jobs but dead ones; when the first dead one died
local STAMP = string.rep('\0', 8)

-- importInBatch counts an imported job in the batch with its label. Without room for the batch it loses its label.
local function importInBatch(i)
  if byte(i.record, 11) % COSTS < BATCHED then return nil end
  withBatches(q)
  local label = batches.batchAt(i.record, 11)
  if label and batches.batchFits(q, label) then return batches.joinBatch(q, label, i.appended) end
  if label then i.record = batches.withBatch(i.record, 11) end
end

-- placeAlive adds a job that holds a place.
local function placeAlive(i)
  local h = lanes.headOf(i.record, 11)
  lanes.checkKeysFor(q, h)
  if h.flags >= LANE then
    q.laned = '1'
    if not q.mixed then
      set(q, 'laned', '1')
      set(q, 'mixed', '1')
    end
  end
  local cost, b = unpackStruct('>I2', i.record, 9), importInBatch(i)
  local before = call('ZCARD', lanes.waitingKey(q, h.lane)) -- this also checks its type
  local bytes = bytesOf(i.id, #i.record + BEFORE_RECORD)
  call('SET', jobKey(nr, i.id), (i.marks % 2 == 1 and 'R' or 'L') .. pack('>I7', i.appended) .. STAMP .. i.record)
  if i.marks % 2 == 1 then
    set(q, 'readmitted', q.readmitted + 1)
    set(q, 'readmittedBytes', q.readmittedBytes + bytes)
  end
  took(bytes)
  set(q, 'size', q.size + 1)
  set(q, 'bytes', q.bytes + bytes)
  set(q, 'turn', max(q.turn, i.turn + h.priority * PRIORITY_STEP + cost))
  if cost > q.maxCost then set(q, 'maxCost', cost) end
  if q.group and cost > q.group.groupMaxCost then set(q.group, 'groupMaxCost', cost) end
  if h.lane ~= ZERO then lanestate.countInLane(q, h.lane, 1, bytes) end
  if b then batches.noteLast(b, { lane = h.lane, notBefore = i.at }, i.id, i.turn) end
  if i.state ~= S.held and h.expires < math.huge then trackDeadlines(q, { h.expires, i.id }, h.expires) end
  local f = { state = i.state, attempts = i.attempts, turn = i.turn, due = i.at, epoch = NOBODY, fence = 0,
    settledEpoch = NOBODY, settledFence = 0,
    bytes = bytes, verdict = 0, lane = h.lane, inFlight = i.marks >= 2, reason = i.reason, timeline = i.timeline }
  if i.state == S.scheduled then
    call('ZADD', B .. 't' .. nr, i.at, i.id)
    M.scheduled = M.scheduled + 1
    if f.inFlight then lanestate.countLane(q, 'k', h.lane, 1) end
  elseif i.state == S.held then
    call('ZADD', B .. 'K' .. nr, i.at, i.id)
    call('HINCRBY', B, 'held', 1)
    f.inFlight = false
  else
    lanestate.putWaiting(q, h.lane, i.id, i.turn)
    if before == 0 then lanestate.placeLane(q, h.lane, cost) end
  end
  if i.state ~= S.waiting or i.attempts > 0 or i.reason ~= '' then call('HSET', B .. 'f' .. nr, i.id, packLease(f)) end
end

-- placeEnded adds an ended job.
local function placeEnded(i)
  local left, kept = i.at + q.retentionFor - now, i.record
  local job = 'E' .. pack('>I7', i.at) .. STAMP .. sub(kept, 1, 10) ..
    pack(ENDED, i.state, 0, i.attempts, NOBODY, 0, i.appended, #i.reason) .. i.reason
  if i.state == S.dead then
    local b = importInBatch(i)
    if b then batches.endInBatch(q, b.label, i.id, S.dead) end
    kept = i.record
    deadBytes[jobKey(nr, i.id)] = bytesOf(i.id, #kept + BEFORE_RECORD)
    addDead(q, { i.id }, i.at)
    death = min(death or i.at, i.at)
    job = job .. pack('>I2', #i.timeline) .. i.timeline .. kept
  else
    ends[#ends + 1] = pack('>I7', i.at) .. i.id
  end
  call('SET', jobKey(nr, i.id), job, 'PX', max(1, ceil(left / 1000)))
end

local function placeJob(i)
  local old = remembered(q, i.id) -- raises if the key is another program's
  if old then return sub(old, 17, 24) == sub(i.record, 1, 8) and THERE or CLASHES end
  if i.state == S.waiting or i.state == S.scheduled or i.state == S.held then
    placeAlive(i)
  elseif i.at + q.retentionFor <= now then
    return FORGOTTEN
  else
    placeEnded(i)
  end
  return PLACED
end

local out = {}
for k = 1, tonumber(ARGV[4]) do
  local a = 5 + 10 * (k - 1)
  local ok, outcome = pcall(placeJob, { id = ARGV[a], state = tonumber(ARGV[a + 1]), turn = tonumber(ARGV[a + 2]),
    appended = tonumber(ARGV[a + 3]),
    at = tonumber(ARGV[a + 4]), attempts = tonumber(ARGV[a + 5]), reason = ARGV[a + 6], marks = tonumber(ARGV[a + 7]),
      timeline = ARGV[a + 8], record = ARGV[a + 9] })
  out[k] = ok and outcome or errorText(outcome)
end
if ends[1] then
  call('RPUSH', B .. 'e' .. nr, unpack(ends))
  call('PEXPIRE', B .. 'e' .. nr, ceil(q.retentionFor / 1000))
  set(q, 'endedLookAt', 0)
end
if death then
  call('ZADD', B .. 'y', 'LT', death + q.retentionFor, q.name)
  M.firstChore = min(M.firstChore, death + q.retentionFor)
end
lanestate.putOnAgendaSooner(q) -- it may have been resumed; and its group must know
save(q)
finish()
return out
