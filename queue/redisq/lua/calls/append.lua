#!lua
-- needs: pace, memory
-- for lanes: appendjob
-- for limits: groups
-- for receiver: receiver
-- for expiry: expiry
-- for rules: appendrules
-- for room: room
--
-- Append jobs, grouped by queue.
--
-- ARGV[2]  number of queues; for each:
--          name, number of jobs, '1' if a rule of another group refuses any of them or '', the number by which it is
--          known which rules they ask or '' (see askedBy);
--          if they ask: bounds (see tally.lua); of each key asked about 2 bytes of which bound, the rule's action
--          (r, d or s) and a byte of how rare it is (see rulekeys.lua); then the keys;
--          for each job: id; body, which is 8 bytes of stamp, unique to the job in its append call, and the record;
--          and if they ask, 2 bytes for each key it asks about, or '!' if the job cannot be asked.
--          Of the stamp's seventh byte the two highest bits say whether the job may be deferred (0 no, 1 yes, 2 as the
--          queue says), and the next one that a rule of another group refuses it.
-- Returns  for each queue: 0 if unknown, 1 if its jobs ask other rules by now, the text of an error, or
--          {now, n, d, burst, tat, rem, last, last cost, 1 if an eta is exact, turn of the first waiting job,
--          jobs waiting before, turn of the first accepted, greatest cost before, now or until when it is paused,
--          queue number, skew (see clock.lua), others}, and if they were asked, the decisions of each job (see
--          take.lua), or '' if it did not come that far.
--          The jobs are accepted one after the other at the end of the lane without a key, but for those in others:
--          index, outcome, and four numbers that go with the outcome:
--            accepted, accepted_before (by this very call): state, position, eta, exact
--            duplicate: state, position; deferred_before, a duplicate of a deferred job: ticket number
--            set_aside: ticket number, position, eta, since; expired: 0 or eta
--            other refusals: retry after in us, and for want of bytes: bytes held, most, what the job takes
--            tooLarge for ever: 1 if for its lane, 0, most bytes, what the job takes
--            failed: the key is not a job
--
-- Redis refuses it when it is out of memory.

begin()
local out, arg, STAMP = {}, 3, 8
if M.first_expiry > 0 and M.first_expiry <= wall then expireDue() end

local function admit(q, ...)
  withLanes(q)
  return appendjob.admit(q, ...)
end

-- etaOfFirst is when a job departs that has nothing before it.
local function etaOfFirst(q)
  local at = q.till and q.till + skew or now
  if q.tat >= at then return max(at, readyAt(q)) end
  return max(at, readyAt({ n = q.n, d = q.d, b = q.b, tat = at, rem = 0 }))
end

-- askedBy is the number by which it is known what a queue's jobs ask: its own rules, and its parent's.
local function askedBy(q)
  if not q.ruled and not (q.group and q.group.ruled) then return '' end
  return call('HGET', B .. 'F', string.match(q.name, '^[^.]*')) or ''
end

local function append(name, count, limited, known, first)
  local nr = numberOf(name)
  local q = nr and load(nr)
  if not q then return 0 end
  if known ~= askedBy(q) then return 1 end
  if q.laned or q.group or hasBacklog(q) or q.epoch ~= M.run then
    checkKeys(q)
  elseif q.expiring then
    checkExpiryKeys(nr) -- nothing below reads them before it writes
  end
  local step, asking = 2, known ~= ''
  if asking then
    local of = ARGV[first + 1]
    withRules(ARGV[first], of, first + 2)
    step, first = 3, first + 2 + #of / 4
  end
  local W, J = B .. 'w' .. nr, B .. 'j' .. nr .. ':'
  local head = tonumber(call('ZRANGE', W, '0', '0', 'WITHSCORES')[2])
  local waiting = head and call('ZCARD', W) or 0
  if waiting == 0 then call('ZCARD', agendaKey(q, 'a')) end -- looks at its type, as it is written last
  local room = nextDeparture(q)
  local live = 'L' .. pack('>I7', now)
  local places, p, others, counts = { nil, nil }, 0, {}, { aside = 0, entered = 0 }
  local dying, soonest, may_expire, counted = {}, math.huge, q.expiring, nil
  local row = { now, q.n, q.d, q.b, q.tat, q.rem, q.last, q.lc, q.size == waiting and not q.paused and 1 or 0,
    head or q.turn, waiting, q.turn, q.cmax,
    q.till and q.till + skew or now, nr, skew, others }
  -- While there is no backlog, and nothing else decides, whoever finds a place takes it; else cap is 0.
  local cap, args = (limited or q.laned or q.also or q.stop or hasBacklog(q) or q.refn > now) and 0 or q.cap, ARGV
  local size, turn, cmax, quick, first_eta = q.size, q.turn, q.cmax, 0, nil
  -- What is kept beside the jobs that hold a place, admit looks at.
  if memoryFull() then cap = 0 end
  local held, most, before_bytes = q.bytes, min(byteLimit(q), M.memory_fair or ANY_BYTES) - (q.deadbytes or 0), q.bytes
  -- Mostly all are new, and there is a place for each: then one command writes them.
  local written = count > 1 and not asking and size + count <= cap
  if written then
    local bodies, seen, n, bytes = {}, {}, 0, held
    for i = first, first + 2 * count - 1, 2 do
      local id, body = args[i], args[i + 1]
      bytes = bytes + #id + #body + JOB_BYTES - STAMP
      written = not seen[id] and byte(body, 19) < LANE and bytes <= most
      if not written then break end
      seen[id], bodies[n + 1], bodies[n + 2] = true, J .. id, live .. body
      n = n + 2
    end
    written = written and call('MSETNX', unpack(bodies)) == 1
  end
  for i = first, first + step * count - 1, step do
    local id, body = args[i], args[i + 1]
    local high, low, flags = byte(body, 17, 19)
    local cost = high * 256 + low
    local need = #id + #body + JOB_BYTES - STAMP
    local slow, at = size >= cap or flags >= LANE or held + need > most, nil
    if not slow and flags >= EXPIRES then
      -- Unless it would lapse, by its eta as accept has it, one that expires is nearly like any other.
      may_expire = may_expire or pcall(checkExpiryKeys, nr)
      first_eta = first_eta or etaOfFirst(q)
      local before, most_cost = waiting + quick + p / 2 + counts.entered, max(cmax, cost)
      local ahead = most_cost == 1 and before or min(turn - row[10], before * most_cost)
      local eta = q.n == 0 and (q.till and q.till + skew or now) or first_eta + ceil(ahead * q.d / q.n)
      at = unpack_('>I7', body, 20)
      slow = not may_expire or at <= wall or eta - skew > at and (not q.paused or q.till)
    end
    if asking and not slow then slow = appendrules.unaskable(i) or appendrules.judge(i, cost) end
    if slow or not written and call('SETNX', J .. id, live .. body) == 0 then
      if written then call('DEL', J .. id) end -- admit decides as if it were not there
      -- What came before it in this call has its place before it is judged.
      if p > 0 then
        call('ZADD', W, unpack(places))
        quick, places, p, counts.waiting = quick + p / 2, {}, 0, nil
      end
      q.size, q.turn, q.cmax, q.bytes = size, turn, cmax, held
      if asking then
        counts.asks = i
        appendrules.unsay(i)
      end
      local ok, code, x, position, eta, last = pcall(admit, q, id, live, body, cost, counts)
      if ok then
        counted = appendjob.countOutcome(counted, code)
      else
        code, x, position, eta, last = 0, 0, 0, 0, 0 -- failed
      end
      size, turn, cmax, held = q.size, q.turn, q.cmax, q.bytes
      if q.laned or q.also or hasBacklog(q) or q.refn > now then cap = 0 end
      local o = #others
      others[o + 1], others[o + 2], others[o + 3], others[o + 4], others[o + 5], others[o + 6] = (i - first) / step,
        code, x or 0, position or 0, eta or 0, last or 0
    else
      if asking then appendrules.charge(cost) end
      places[p + 1], places[p + 2] = turn, id
      p = p + 2
      turn = turn + cost
      size, held = size + 1, held + need
      if cost > cmax then cmax = cost end
      if at then
        dying[#dying + 1], dying[#dying + 2] = at, id
        soonest = min(soonest, at)
      end
    end
  end
  quick = quick + p / 2
  if p > 0 then call('ZADD', W, unpack(places)) end
  if quick > 0 then
    set(q, 'turn', turn)
    set(q, 'size', size)
    set(q, 'bytes', held)
    if cmax > row[13] then set(q, 'cmax', cmax) end
    M.waiting = M.waiting + quick
  end
  if dying[1] then trackDeadlines(q, dying, soonest) end
  local entered = quick + counts.entered
  add(q, 'appended', entered)
  took(held - before_bytes)
  if entered + counts.aside > 0 then
    local over = q.bytes + (q.deadbytes or 0) + (q.dbytes or 0) - byteLimit(q)
    if over + q.rmax * JOB_BYTES > 0 and over + call('LLEN', B .. 'e' .. nr) * JOB_BYTES > 0 then makeRoom(q) end
  end
  if entered > 0 and (q.laned or q.group) then
    lanestate.putOnAgendaSooner(q)
  elseif entered > 0 and waiting == 0 and not q.asleep then
    call('ZADD', agendaKey(q, 'a'), 'LT', room, nr)
    wakeFor(room, q)
  end
  if asking then
    appendrules.writeAll()
    local all = {}
    for k = 1, count do all[k] = appendrules.decided(first + step * (k - 1)) end
    row[#row + 1] = all
  end
  if counted then
    for counter, times in pairs(counted) do add(q, counter, times) end
  end
  add(q, 'set_aside', counts.aside)
  save(q)
  return row
end

for qi = 1, ARGV[2] + 0 do
  local name, count, known = ARGV[arg], ARGV[arg + 1] + 0, ARGV[arg + 3]
  -- Each queue on its own: what one cannot do must not undo what another did.
  local ok, answer = pcall(append, name, count, ARGV[arg + 2] ~= '', known, arg + 4)
  out[qi] = ok and answer or errorText(answer)
  arg = arg + 4 + (known == '' and 2 * count or 2 + #ARGV[arg + 5] / 4 + 3 * count)
end
finish()
return out
