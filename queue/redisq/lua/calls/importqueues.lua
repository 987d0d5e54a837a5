#!lua
-- needs: revision, changelog, create, agenda, pause, import, counters, memory, learned
-- for lanes: lanestate
-- for limits: limitchange, membership
-- for receiver: receiver
--
-- Import queues without jobs that do not exist yet, with one entry in the audit log. If not all of them can be made,
-- none is: the entry lists them, so it is made before this call.
--
-- ARGV[2..8]  mark of the import; actor; detail for the logs; latest revision of the queues in their store; most
--             children of a name; digest, in hex, of the list of queues for the audit log, and that list
-- ARGV[9..]   how many specs, and their settings, see create.lua; then how many queues, and for each: name; rules of
--             its group that it names; which of the specs; digest of the showable text of its spec, that text unless it
--             is the spec, and the spec; turn; greatest cost; '1' if it is paused, or until when in us; pause reason,
--             who paused it and when; its bucket: tat, rem, last, last cost; how many of its counters are given, and
--             for each its place in COUNTERS and its count; the number of its last errors and those, the oldest first;
--             the number of its limits and those, see continueFrom; what its estimates have learned (learned.lua) or ''
-- Returns  for each queue: 0 it exists otherwise, or does not fit other queues and rules; 1 it is imported, now or
--          before; 2 it can be imported, but not all others
--
-- Redis refuses this script while Redis is out of memory.

local STAYS_OUT, IMPORTED, POSSIBLE = 0, 1, 2

begin()
checkRun()
local mark, by, detail, children = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[6])
local specs, at, names, queues, siblings, answers, all = {}, 10, {}, {}, {}, {}, true
for i = 1, tonumber(ARGV[9]) do specs[i], at = specFrom(at) end

-- checkImportable returns what can become of a queue: see the answers. nr is its number, if it exists.
local function checkImportable(name, nr, s, ruled)
  if nr then
    local is, open = importOf(nr)
    return is == mark and not open and IMPORTED or STAYS_OUT
  end
  local base = membership.parentOf(name)
  if checkSpec(name, s, ruled, nil, children - (base and siblings[base] or 0)) then return STAYS_OUT end
  if base then siblings[base] = (siblings[base] or 0) + 1 end
  checkLogKeys('queue', name)
  return POSSIBLE
end

-- behind returns the index behind a list that begins at an argument: how many entries, and these, of so many arguments
-- each.
local function behind(first, size) return first + 1 + size * tonumber(ARGV[first]) end

local behindLast = at + 1
for i = 1, tonumber(ARGV[at]) do
  local first, errorsAt = behindLast, behind(behindLast + 16, 2)
  local limitsAt = behind(errorsAt, 1)
  behindLast = behind(limitsAt, 4) + 1
  names[i] = ARGV[first]
  queues[i] = { at = first, spec = specs[tonumber(ARGV[first + 2])], errorsAt = errorsAt, limitsAt = limitsAt,
    learned = ARGV[behindLast - 1] }
end
withLimits({})
for i, nr in ipairs(call('HMGET', B .. 'n', unpack(names))) do
  answers[i] = checkImportable(names[i], nr, queues[i].spec, ARGV[queues[i].at + 1])
  all = all and answers[i] == POSSIBLE
end
if not all then return answers end
if memoryFull() then raise('OOM', NEARLY_OUT) end
checkAuditKeys(by)
for _, key in ipairs({ 'a', 's', 'pa', 'ps', 'N' }) do call('ZCARD', B .. key) end
local rev = nextRevision()
if rev < tonumber(ARGV[5]) then
  -- A revision must stand for one spec only, here and in the store that the queues came from.
  rev = tonumber(ARGV[5])
  call('HSET', B, 'rev', string.format('%.0f', rev))
end

-- restoreImported gives a new queue its counters, errors, pause and paces of the export, and returns further fields to
-- write: names and values.
local function restoreImported(q, it)
  local turn, maxCost, pause, reason, who, since = unpack(ARGV, it.at + 6, it.at + 11)
  local more = { 'importMark', mark, 'lanesUnknownSince', now }
  q.turn, q.maxCost = max(q.turn, tonumber(turn)), tonumber(maxCost)
  for i = it.at + 17, it.errorsAt - 1, 2 do
    local field, count = COUNTERS[tonumber(ARGV[i])], tonumber(ARGV[i + 1])
    if q[field] then
      q[field] = count
    else
      more[#more + 1], more[#more + 2] = field, count
    end
  end
  for i = it.errorsAt + 1, it.limitsAt - 1 do call('LPUSH', B .. 'r' .. q.nr, ARGV[i]) end
  continueFrom(q, it.at + 12, it.limitsAt)
  if pause ~= '' then
    setPause(q, pause)
    for _, value in ipairs({ 'pauseReason', reason, 'pausedBy', who, 'pausedSince', since }) do
      more[#more + 1] = value
    end
  end
  return more
end

local graves, left = formerOf(names)
local seq = call('HINCRBY', B, 'qseq', #names) - #names
local numbers, sorted = {}, {}
unmarkDeleted('queue', names)
for i, it in ipairs(queues) do
  local name, ruled, _, digest, shown, text = unpack(ARGV, it.at, it.at + 5)
  local q = create(seq + i, name, it.spec, ruled, rev, graves[i], left[i])
  writeCreated(q, it.spec, restoreImported(q, it))
  if it.learned ~= '' then restoreLearned(q, it.learned) end
  keepVersion('queue', name, rev, packText(digest, shown, text))
  writeChange('queue', name, wall, by, 'created', rev, 0, detail, '', 0)
  membership.joinGroup(q, name)
  if q.group and q.maxCost > q.group.groupMaxCost then set(q.group, 'groupMaxCost', q.maxCost) end
  if q.asleep then putOnAgenda(q) end
  save(q)
  numbers[2 * i - 1], numbers[2 * i], sorted[2 * i - 1], sorted[2 * i] = name, q.nr, 0, name
  answers[i] = IMPORTED
end
listCreated(numbers, sorted)
writeAudit({ at = wall, by = by, of = 'queue', name = '', what = 'imported', revision = rev, detail = detail,
  list = { digest = ARGV[7], text = ARGV[8] } })
finish()
return answers
