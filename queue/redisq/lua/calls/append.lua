#!lua
-- needs: pace, memory
-- for lanes: appendjob
-- for limits: groups
-- for receiver: receiver
-- for expiry: expiry
-- for rules: appendrules
-- for makeroom: makeroom
--
-- Append jobs, grouped by queue.
--
-- ARGV[2]  number of queues
-- ARGV[3]  the last instant that the clock can show, as the caller knows it, or ''
-- ARGV     for each queue:
--          name, number of jobs, '1' if a rule of another group refuses any of them or '', the number of the ruleset
--          that they ask, as the caller last read it, or '';
--          if they ask: bounds (see tally.lua); for each key 2 bytes of its bound, the rule's action (r, d or s) and a
--          byte of how rare it is (see rulekeys.lua); then the keys;
--          for each job: id; body: 8 bytes of stamp, unique to the job in its append call, and the record; and if they
--          ask, 2 bytes for each key that the job asks about, or '!' if the job cannot be asked.
--          In the seventh byte of the stamp, the two highest bits say whether the job may be deferred (0 no, 1 yes,
--          2 as the queue says), and the next one that a rule of another group refuses it.
-- Returns  for each queue: 0 if it is unknown, 1 if its ruleset has changed, the text of an error, or
--          {now, n, d, burst, tat, rem, last, last cost, 1 if an ETA is exact, turn of the first waiting job,
--          jobs waiting before, turn of the first accepted job, greatest cost before, end of the pause or else now,
--          queue number, skew (see clock.lua), others}, and if they asked, the decisions for each job (see take.lua),
--          or '' if the job did not get that far.
--          The jobs are accepted one after the other at the end of the lane without a key, except for the others:
--          index, outcome, and four numbers that go with the outcome:
--            accepted, accepted_before (by this very call): state, position, ETA, exact
--            duplicate: state, position; deferred_before (duplicate of a deferred job): ticket number
--            set_aside: ticket number, position, ETA, since; expired: 0 or ETA
--            other refusals: retry after in us, and if bytes are missing: bytes held, maximum, what the job takes
--            tooLarge (for ever): 1 if for its lane, 0, maximum bytes, what the job takes
--            uncounted_unit, missing_cost: the unit, 0, 0, 0
--            failed: the key is not a job
--
-- Redis refuses this script while Redis is out of memory.

local STAMP_BYTES = 8

begin(nil, tonumber(ARGV[3]))
local out, arg = {}, 4
if M.firstExpiry > 0 and M.firstExpiry <= wall then expireDue() end

-- lapses reports whether admit must decide about a job that expires, because it may expire before its ETA. It also
-- returns when the job expires. The ETA is computed as admit computes it.
local function lapses(s, q, body, before, behind, mostCost)
  s.mayExpire = s.mayExpire or pcall(checkExpiryKeys, q.nr)
  local goes = q.pausedUntil and q.pausedUntil + skew or now
  if not s.firstEta then -- of a job with no other before it
    s.firstEta = max(goes, q.tat >= goes and readyAt(q)
      or readyAt({ n = q.n, d = q.d, burst = q.burst, tat = goes, rem = 0 }))
  end
  local ahead = mostCost == 1 and before or min(behind, before * mostCost)
  local eta, at = q.n == 0 and goes or s.firstEta + ceil(ahead * q.d / q.n), unpackStruct('>I7', body, 20)
  return not s.mayExpire or at <= wall or eta - skew > at and (not q.paused or q.pausedUntil), at
end

-- writeTogether writes all jobs with one command if each is new and ordinary, and there are bytes for all of them.
local function writeTogether(first, count, prefix, live, held, most)
  local args, bodies, seen, n = ARGV, {}, {}, 0
  for i = first, first + 2 * count - 1, 2 do
    local id, body = args[i], args[i + 1]
    held = held + #id + #body + JOB_BYTES - STAMP_BYTES
    if seen[id] or byte(body, 19) >= LANE or held > most then return false end
    seen[id], bodies[n + 1], bodies[n + 2] = true, prefix .. id, live .. body
    n = n + 2
  end
  return call('MSETNX', unpack(bodies)) == 1
end

-- endAppend writes what has changed in a queue. quick is the number of jobs that took a place without admit. ready is
-- when the first of them can depart if none waited before. It returns row, the answer, with the rules' decisions.
local function endAppend(s, q, quick, ready, row, count)
  local changes, entered, deferred = q.changes, quick + s.counts.entered, s.counts.deferred
  if quick > 0 then
    changes.turn, changes.size, changes.bytes = true, true, true
    if q.maxCost > s.maxCost then changes.maxCost = true end
    M.waiting = M.waiting + quick
  end
  if s.dying then trackDeadlines(q, s.dying, s.soonest) end
  add(q, 'appended', entered)
  took(q.bytes - s.bytes)
  if entered + deferred > 0 then
    local over = q.bytes + (q.deadBytes or 0) + (q.deferredBytes or 0) - byteLimit(q)
    if over + q.retentionMax * JOB_BYTES > 0 and over + call('LLEN', B .. 'e' .. q.nr) * JOB_BYTES > 0 then
      makeRoom(q)
    end
  end
  if entered > 0 and (q.laned or q.group) then
    lanestate.putOnAgendaSooner(q)
  elseif entered > 0 and s.waiting == 0 and not q.asleep then
    call('ZADD', agendaKey(q, 'a'), 'LT', ready, q.nr)
    wakeFor(ready, q)
  end
  if s.asking then
    appendrules.writeAll()
    local decisions = {}
    for k = 1, count do decisions[k] = appendrules.decided(s.first + s.step * (k - 1)) end
    row[#row + 1] = decisions
  end
  if s.counted then
    for counter, times in pairs(s.counted) do add(q, counter, times) end
  end
  add(q, 'set_aside', deferred)
  save(q)
  return row
end

local function append(name, count, limited, known, first)
  local nr = numberOf(name)
  local q = nr and load(nr)
  if not q then return 0 end
  local rules = q.ruleNames or q.group and q.group.ruleNames
  if known ~= (rules and call('HGET', B .. 'F', string.match(name, '^[^.]*')) or '') then return 1 end
  if q.laned or q.group or hasBacklog(q) or q.epoch ~= M.run then
    checkKeys(q)
  elseif q.expiring then
    checkExpiryKeys(nr) -- nothing below reads these keys before it writes
  end
  local step, asking, args = 2, known ~= '', ARGV
  if asking then
    local of = args[first + 1]
    withRules(args[first], of, first + 2)
    step, first = 3, first + 2 + #of / 4
  end
  local W, J, live = B .. 'w' .. nr, B .. 'j' .. nr .. ':', 'L' .. pack('>I7', now)
  local head = tonumber(call('ZRANGE', W, '0', '0', 'WITHSCORES')[2])
  local waiting, firstTurn = head and call('ZCARD', W) or 0, head or q.turn
  if waiting == 0 then call('ZCARD', agendaKey(q, 'a')) end -- check its type: it is written last
  local ready, counts, others, places, p = nextDeparture(q), { deferred = 0, entered = 0 }, {}, { nil, nil }, 0
  local s = { q = q, first = first, step = step, asking = asking, live = live, counts = counts, others = others,
    waiting = waiting, bytes = q.bytes, maxCost = q.maxCost, soonest = math.huge, mayExpire = q.expiring }
  local exact = q.size == waiting and not (q.paused or q.pull or q.adapt) and 1 or 0 -- as etaIsExact has it
  local row = { now, q.n, q.d, q.burst, q.tat, q.rem, q.last, q.lastCost, exact, firstTurn, waiting, q.turn, q.maxCost,
    q.pausedUntil and q.pausedUntil + skew or now, nr, skew, others }
  local size, turn, maxCost, held, quick = q.size, q.turn, q.maxCost, q.bytes, 0
  -- Without a backlog, and if no rule, limit or stop decides, a job that finds a place takes it. Else admit decides.
  local capacity = not memoryFull() and q.capacity or 0
  if limited or q.laned or q.links or q.stop or hasBacklog(q) or q.promised > now then capacity = 0 end
  local most = min(byteLimit(q), M.memoryFair or ANY_BYTES) - (q.deadBytes or 0)
  -- Usually all jobs are new, and there is a place for each.
  local written = count > 1 and not asking and size + count <= capacity
    and writeTogether(first, count, J, live, held, most)
  for i = first, first + step * count - 1, step do
    local id, body = args[i], args[i + 1]
    local high, low, flags = byte(body, 17, 19)
    local cost, need, at = high * 256 + low, #id + #body + JOB_BYTES - STAMP_BYTES, nil
    local slow = size >= capacity or flags >= LANE or held + need > most
    if not slow and flags >= EXPIRES then
      slow, at = lapses(s, q, body, waiting + quick + p / 2 + counts.entered, turn - firstTurn, max(maxCost, cost))
    end
    if asking and not slow then slow = appendrules.unaskable(i) or appendrules.judge(i, cost) end
    if slow or not written and call('SETNX', J .. id, live .. body) == 0 then
      if written then call('DEL', J .. id) end -- admit decides as if it were not there
      if p > 0 then -- the jobs before it in this call have their places before it is judged
        call('ZADD', W, unpack(places))
        quick, places, p, counts.waiting = quick + p / 2, {}, 0, nil
      end
      q.size, q.turn, q.maxCost, q.bytes = size, turn, maxCost, held
      local loaded = pcall(withLanes, q)
      appendjob.admit(s, loaded, i, id, body, cost)
      size, turn, maxCost, held = q.size, q.turn, q.maxCost, q.bytes
      if q.laned or q.links or hasBacklog(q) or q.promised > now then capacity = 0 end
    else
      if asking then appendrules.charge(cost) end
      places[p + 1], places[p + 2], p = turn, id, p + 2
      size, turn, held = size + 1, turn + cost, held + need
      if cost > maxCost then maxCost = cost end
      if at then
        s.dying, s.soonest = s.dying or {}, min(s.soonest, at)
        table.insert(s.dying, at)
        table.insert(s.dying, id)
      end
    end
  end
  if p > 0 then call('ZADD', W, unpack(places)) end
  q.size, q.turn, q.maxCost, q.bytes = size, turn, maxCost, held
  return endAppend(s, q, quick + p / 2, ready, row, count)
end

for qi = 1, ARGV[2] + 0 do
  local name, count, known = ARGV[arg], ARGV[arg + 1] + 0, ARGV[arg + 3]
  -- Each queue on its own: an error in one queue must not undo what happened in another.
  local ok, answer = pcall(append, name, count, ARGV[arg + 2] ~= '', known, arg + 4)
  out[qi] = ok and answer or errorText(answer)
  arg = arg + 4 + (known == '' and 2 * count or 2 + #ARGV[arg + 5] / 4 + 3 * count)
end
finish()
return out
