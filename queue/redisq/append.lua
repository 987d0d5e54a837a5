#!lua
-- Append jobs, grouped by queue.
--
-- ARGV[2]  number of queues; for each: name, number of jobs; for each job: id,
--          body (8 bytes of stamp, unique to the job in its append call, and the record). The two highest bits of the stamp's
--          seventh byte: 0 the job may not be deferred, 1 it may, 2 as the queue says
-- Returns  for each queue: 0 when unknown, the text of an error, or {now, n, d, burst, tat, rem, last, last cost, 1 if an eta is
--          exact, turn of the first waiting job, jobs waiting before, turn of the first accepted, queue number, others}. The jobs are
--          accepted one after the other but for the others: index, then
--          1, state, position, turn: accepted before, by this very call; 2, state, position, turn: duplicate; 3, 0, 0, 0: conflict;
--          4, 0, retry after in us, 0: full; 5, 0, retry after in us, 0: overflow full; 6, 0, 0, 0: lapsed;
--          7, ticket number, position, turn, since: set aside; 8, ticket number, 0, 0: duplicate of a deferred one;
--          0, 0, 0, 0: the key is not a job
--
-- Redis refuses it when it is out of memory.

begin()
local out, arg = {}, 3
local CONFLICT, FULL, OVERFLOW_FULL, LAPSED, SET_ASIDE, DEFERRED_BEFORE = 3, 4, 5, 6, 7, 8

-- place_of returns the position and turn of a waiting job, which may have come
-- in by this very call and have its place only in places.
local function place_of(q, id, line)
  local W = B .. 'w' .. q.nr
  local rank = call('ZRANK', W, id)
  if rank then return rank + 1, tonumber(call('ZSCORE', W, id)) end
  for i = 2, #line.places, 2 do
    if line.places[i] == id then return line.waiting + i / 2, line.places[i - 1] end
  end
  return 0, 0
end

-- known answers for an id that is taken.
local function known(q, id, body, line, old, number, cancelled)
  if sub(old, 17, 24) ~= sub(body, 9, 16) then return CONFLICT, 0, 0, 0 end
  local again = sub(old, 9, 16) == sub(body, 1, 8)
  if number then
    if again then
      local rank, before = among_deferred(q, number)
      return SET_ASIDE, number, line.waiting + #line.places / 2 + rank, q.turn + before, time_at(old)
    end
    if cancelled then return 2, S.cancelled, 0, 0 end
    return DEFERRED_BEFORE, renewed(q, id, old, number), 0, 0
  end
  local code = again and 1 or 2
  if sub(old, 1, 1) == 'E' then return code, (unpack_(ENDED, old, 27)), 0, 0 end
  local f = call('HGET', B .. 'f' .. q.nr, id)
  local state = f and (unpack_('>B', f)) or S.waiting
  if state ~= S.waiting then return code, state, 0, 0 end
  return code, state, place_of(q, id, line)
end

local function deferrable(q, body)
  local says = floor(byte(body, 7) / 64)
  if says < 2 then return says == 1 end
  overflow(q)
  return q.defers == 1
end

local function set_aside(q, id, body, cost, line)
  -- This may raise, so it comes before what is written.
  if line.aside == 0 then call('ZADD', B .. 'o', 'NX', now, q.name) end
  local position, turn = line.waiting + #line.places / 2 + q.deferred + 1, q.turn + q.dcost
  set(q, 'tickets', q.tickets + 1)
  call('SET', job_key(q.nr, id), 'D' .. pack('>I7', now) .. sub(body, 1, 18) .. pack(DEFERRED, q.tickets, 0), 'PX', ceil((q.dage + q.rfor) / 1000))
  count_deferred(q, 1, cost)
  line.aside = line.aside + 1
  return SET_ASIDE, q.tickets, position, turn, now
end

-- decide answers for a job that cannot just be put in: its id may be taken, or
-- the queue has no place for it. It returns nil when it is in after all.
local function decide(q, id, live, body, cost, line)
  local old, number, cancelled = remembered(q, id)
  if old then return known(q, id, body, line, old, number, cancelled) end
  if expiry(body, 19) <= now then return LAPSED, 0, 0, 0 end
  local full, behind = q.size >= q.cap, backlogged(q)
  if (full or behind) and deferrable(q, body) then
    overflow(q)
    if q.deferred < q.dmax then return set_aside(q, id, body, cost, line) end
    line.refused = line.refused + 1
    return OVERFLOW_FULL, 0, promise(q), 0
  end
  if behind then overflow(q) end
  -- Of a queue with a backlog the places up to the mark are for what comes back.
  if full or behind and q.size - q.back >= max(1, q.cap - q.mark) then
    line.refused = line.refused + 1
    return FULL, 0, promise(q), 0
  end
  call('SET', job_key(q.nr, id), live .. body)
end

local function append(name, count, first)
  local nr = number_of(name)
  local q = nr and load(nr)
  if not q then return 0 end
  sound(nr)
  local W, J = B .. 'w' .. nr, B .. 'j' .. nr .. ':'
  local head = call('ZRANGE', W, 0, 0, 'WITHSCORES')
  local waiting = call('ZCARD', W)
  local room = next_departure(q)
  local live = 'L' .. pack('>I7', now)
  local places, p, others = {}, 0, {}
  local line = { waiting = waiting, places = places, refused = 0, aside = 0 }
  local exact = q.size == waiting and not q.paused
  local row = { now, q.n, q.d, q.b, q.tat, q.rem, q.last, q.lc, exact and 1 or 0, tonumber(head[2]) or q.turn, waiting, q.turn, nr, others }
  -- While there is no backlog whoever finds a place takes it.
  local cap, args = backlogged(q) and 0 or q.cap, ARGV
  local size, turn, cmax = q.size, q.turn, q.cmax
  for i = first, first + 2 * count - 1, 2 do
    local id, body = args[i], args[i + 1]
    local high, low, flags = byte(body, 17, 19)
    local cost = high * 256 + low
    local ok, code, x, position, its_turn, since = true, nil, nil, nil, nil, nil
    if size >= cap or flags >= EXPIRES and expiry(body, 19) <= now or call('SETNX', J .. id, live .. body) == 0 then
      q.size, q.turn = size, turn
      ok, code, x, position, its_turn, since = pcall(decide, q, id, live, body, cost, line)
      if not ok then
        code, x, position, its_turn = 0, 0, 0, 0
      end
      if backlogged(q) then cap = 0 end
    end
    if code then
      local o = #others
      others[o + 1], others[o + 2], others[o + 3], others[o + 4], others[o + 5], others[o + 6] = (i - first) / 2, code, x, position, its_turn, since
    else
      places[p + 1], places[p + 2] = turn, id
      p = p + 2
      turn = turn + cost
      size = size + 1
      if cost > cmax then cmax = cost end
    end
  end
  if p > 0 then
    call('ZADD', W, unpack(places))
    set(q, 'turn', turn)
    set(q, 'size', size)
    if cmax > q.cmax then set(q, 'cmax', cmax) end
    add(q, 'appended', p / 2)
    M.tw = M.tw + p / 2
    if waiting == 0 and not q.paused then
      call('ZADD', B .. 'a', 'LT', room, nr)
      due(room)
    end
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
