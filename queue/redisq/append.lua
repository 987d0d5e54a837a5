#!lua
-- Append jobs, grouped by queue.
--
-- ARGV[2]  number of queues; for each: name, number of jobs; for each job: id,
--          body (8 bytes of stamp, unique to the job in its append call, and the record). The two highest bits of the stamp's
--          seventh byte: 0 the job may not be deferred, 1 it may, 2 as the queue says
-- Returns  for each queue: 0 when unknown, the text of an error, or {now, n, d, burst, tat, rem, last, last cost, 1 if an eta is
--          exact, turn of the first waiting job, jobs waiting before, turn of the first accepted, greatest cost before, queue number, others}. The jobs
--          are accepted one after the other at the end of the lane without a key but for the others: index, then
--          1, state, position, eta, exact: accepted before, by this very call; 2, state, position, 0, 0: duplicate; 3, 0, 0, 0, 0: conflict;
--          4, retry after in us, 0, 0, 0: full; 5, the same: overflow full; 6, 0 or eta, 0, 0, 0: lapsed;
--          7, ticket number, position, eta, since: set aside; 8, ticket number, 0, 0, 0: duplicate of a deferred one;
--          9, state, position, eta, exact: accepted; 10, retry after in us, 0, 0, 0: lane full; 11, the same: schedule full;
--          12, 0, 0, 0, 0: not before too far ahead; 0, 0, 0, 0, 0: the key is not a job
--
-- Redis refuses it when it is out of memory.

begin()
local out, arg = {}, 3
local BEFORE, DUPLICATE, CONFLICT, FULL, OVERFLOW_FULL, LAPSED, SET_ASIDE, DEFERRED_BEFORE = 1, 2, 3, 4, 5, 6, 7, 8
local ACCEPTED, LANE_FULL, SCHEDULE_FULL, TOO_FAR = 9, 10, 11, 12

local ORDINARY = { flags = 0, expires = math.huge, not_before = 0, lane = ZERO, priority = 0 }
local LOOK_AHEAD = 366 * 86400 * SECOND

-- know_line counts who waits, where that matters, if it is not known.
local function know_line(q, line)
  if line.waiting then return end
  more(q)
  for field, value in pairs(laned.line_of(q)) do line[field] = value end
end

-- known answers for an id that is taken.
local function known(q, id, body, line, old, number, cancelled)
  if sub(old, 17, 24) ~= sub(body, 9, 16) then return CONFLICT end
  local again = sub(old, 9, 16) == sub(body, 1, 8)
  if number then
    if again then
      know_line(q, line)
      local rank, before = among_deferred(q, number)
      return SET_ASIDE, number, line.waiting + rank, laned.aside_eta(q, line, cost_of(old), before, laned.head_of(body, 19).not_before), time_at(old)
    end
    if cancelled then return DUPLICATE, S.cancelled end
    return DEFERRED_BEFORE, renewed(q, id, old, number)
  end
  local code = again and BEFORE or DUPLICATE
  if sub(old, 1, 1) == 'E' then return code, (unpack_(ENDED, old, 27)) end
  know_line(q, line)
  local entry = call('HGET', B .. 'f' .. q.nr, id)
  local f = entry and laned.unpack_flight(entry)
  local state = f and f.state or S.waiting
  if state ~= S.waiting and (state ~= S.scheduled or not again) then return code, state end
  local position, eta = laned.expected(q, line, id, old, f)
  return code, state, position, eta, laned.exact(q, line) and 1 or 0
end

local function deferrable(q, body)
  local says = floor(byte(body, 7) / 64)
  if says < 2 then return says == 1 end
  overflow(q)
  return q.defers == 1
end

local function set_aside(q, id, body, h, cost, line)
  know_line(q, line)
  local position, eta = line.waiting + q.deferred + 1, laned.aside_eta(q, line, cost, q.dcost, h.not_before)
  if eta > h.expires and not q.paused then return LAPSED, eta end
  -- This may raise, so it comes before what is written.
  if line.aside == 0 then call('ZADD', B .. 'o', 'NX', now, q.name) end
  set(q, 'tickets', q.tickets + 1)
  call('SET', job_key(q.nr, id), 'D' .. pack('>I7', now) .. sub(body, 1, 18) .. pack(DEFERRED, q.tickets, 0), 'PX', ceil((q.dage + q.rfor) / 1000))
  count_deferred(q, 1, cost)
  line.aside = line.aside + 1
  return SET_ASIDE, q.tickets, position, eta, now
end

-- refuse counts a job that found no room.
local function refuse(line, code, wait)
  line.refused = line.refused + 1
  return code, max(wait, 1000)
end

-- no_room answers for what has a bound of its own, whatever room there is else.
local function no_room(q, h, line)
  local rule = laned.rule_of(q, h.lane)
  if rule.cap > 0 and (tonumber(call('HGET', B .. 'h' .. q.nr, h.lane)) or 0) >= rule.cap then
    local next_in = rule.n > 0 and laned.next_of(laned.bucket_of(q, h.lane, rule, now), now) - now or 0
    local interval = q.n > 0 and ceil(q.d / q.n) or 0
    return refuse(line, LANE_FULL, max(next_in, interval * line.lanes))
  end
  local T = B .. 't' .. q.nr
  if h.not_before > now and q.msched > 0 and call('ZCARD', T) >= q.msched then
    return refuse(line, SCHEDULE_FULL, call('ZRANGE', T, 0, 0, 'WITHSCORES')[2] - now)
  end
end

-- accept lets a job in unless it would depart too late.
local function accept(q, id, live, body, h, cost, line)
  know_line(q, line)
  local W, turn = laned.waiting_key(q, h.lane), q.turn - h.priority * PRIORITY_STEP
  local in_lane = call('ZCARD', W)
  local i = h.priority == 0 and in_lane or call('ZCOUNT', W, '-inf', string.format('(%.0f', turn))
  local eta = laned.lane_eta(q, h, cost, turn - (line.head or turn), i, line.lanes - min(in_lane, 1), line.waiting)
  if h.not_before > now then eta = max(eta, h.not_before) end
  if eta > h.expires and not q.paused then return LAPSED, eta end
  local is_exact = h.flags < LANE and laned.exact(q, line)
  call('SET', job_key(q.nr, id), live .. body)
  local state = laned.enter(q, id, h, cost, in_lane)
  line.entered = line.entered + 1
  if state == S.scheduled then return ACCEPTED, state, 0, eta, 0 end
  line.waiting, line.lanes = line.waiting + 1, line.lanes + (in_lane == 0 and 1 or 0)
  if h.lane == ZERO then line.head = min(line.head or turn, turn) end
  return ACCEPTED, state, i + 1, eta, is_exact and 1 or 0
end

-- decide answers for a job that cannot just be put in at the end: its id may be
-- taken, the queue may have no place for it, or it has more to it.
local function decide(q, id, live, body, cost, line)
  local old, number, cancelled = remembered(q, id)
  if old then return known(q, id, body, line, old, number, cancelled) end
  if expiry(body, 19) <= now then return LAPSED end
  local h = ORDINARY
  if q.laned or byte(body, 19) >= EXPIRES then
    know_line(q, line)
    h = laned.head_of(body, 19)
    if h.not_before > now + LOOK_AHEAD then return TOO_FAR end
    local code, wait_for = no_room(q, h, line)
    if code then return code, wait_for end
  end
  local full, behind = q.size >= q.cap, backlogged(q)
  if (full or behind) and deferrable(q, body) then
    overflow(q)
    if q.deferred < q.dmax then return set_aside(q, id, body, h, cost, line) end
    return refuse(line, OVERFLOW_FULL, promise(q))
  end
  if behind then overflow(q) end
  -- Of a queue with a backlog the places up to the mark are for what comes back.
  if full or behind and q.size - q.back >= max(1, q.cap - q.mark) then return refuse(line, FULL, promise(q)) end
  return accept(q, id, live, body, h, cost, line)
end

local function append(name, count, first)
  local nr = number_of(name)
  local q = nr and load(nr)
  if not q then return 0 end
  sound(nr)
  local W, J = B .. 'w' .. nr, B .. 'j' .. nr .. ':'
  local head = tonumber(call('ZRANGE', W, 0, 0, 'WITHSCORES')[2])
  local waiting = call('ZCARD', W)
  local room = next_departure(q)
  local live = 'L' .. pack('>I7', now)
  local places, p, others, line = {}, 0, {}, { refused = 0, aside = 0, entered = 0 }
  local row = { now, q.n, q.d, q.b, q.tat, q.rem, q.last, q.lc, q.size == waiting and not q.paused and 1 or 0, head or q.turn, waiting, q.turn, q.cmax, nr, others }
  -- While there is no backlog, and nothing but the line, whoever finds a place takes it.
  local cap, args = (q.laned or backlogged(q)) and 0 or q.cap, ARGV
  local size, turn, cmax, quick = q.size, q.turn, q.cmax, 0
  for i = first, first + 2 * count - 1, 2 do
    local id, body = args[i], args[i + 1]
    local high, low, flags = byte(body, 17, 19)
    local cost = high * 256 + low
    if size >= cap or flags >= EXPIRES or call('SETNX', J .. id, live .. body) == 0 then
      -- What came before it in this call has its place before it is judged.
      if p > 0 then
        call('ZADD', W, unpack(places))
        quick, places, p, line.waiting = quick + p / 2, {}, 0, nil
      end
      q.size, q.turn, q.cmax = size, turn, cmax
      local ok, code, x, position, eta, more = pcall(decide, q, id, live, body, cost, line)
      if not ok then code, x, position, eta, more = 0, 0, 0, 0, 0 end
      size, turn, cmax = q.size, q.turn, q.cmax
      if q.laned or backlogged(q) then cap = 0 end
      local o = #others
      others[o + 1], others[o + 2], others[o + 3], others[o + 4], others[o + 5], others[o + 6] = (i - first) / 2, code, x or 0, position or 0, eta or 0, more or 0
    else
      places[p + 1], places[p + 2] = turn, id
      p = p + 2
      turn = turn + cost
      size = size + 1
      if cost > cmax then cmax = cost end
    end
  end
  quick = quick + p / 2
  if p > 0 then call('ZADD', W, unpack(places)) end
  if quick > 0 then
    set(q, 'turn', turn)
    set(q, 'size', size)
    if cmax > row[13] then set(q, 'cmax', cmax) end
    M.tw = M.tw + quick
  end
  local entered = quick + line.entered
  add(q, 'appended', entered)
  if entered > 0 and q.laned then
    laned.sooner(q)
  elseif entered > 0 and waiting == 0 and not q.paused then
    call('ZADD', B .. 'a', 'LT', room, nr)
    due(room)
  end
  add(q, 'refused', line.refused)
  add(q, 'setaside', line.aside)
  save(q)
  return row
end

for qi = 1, tonumber(ARGV[2]) do
  local name, count = ARGV[arg], tonumber(ARGV[arg + 1])
  -- Each queue on its own: what one cannot do must not undo what another did.
  local ok, answer = pcall(append, name, count, arg + 2)
  out[qi] = ok and answer or error_text(answer)
  arg = arg + 2 + 2 * count
end
finish()
return out
