#!lua
-- Append jobs, grouped by queue.
--
-- ARGV[2]  number of queues; for each: name, number of jobs; for each job: id,
--          body (8 bytes of stamp, unique to the job in its append call, and the record)
-- Returns  for each queue: 0 when unknown, the text of an error, or {now, n, d, burst, tat, rem, last, last cost, 1 if an eta is
--          exact, turn of the first waiting job, jobs waiting before, turn of the first accepted, others}. The jobs are accepted one
--          after the other but for the others, five entries each: index, then
--          1, state, position, turn: accepted before, by this very call; 2, state, position, turn: duplicate; 3, 0, 0, 0: conflict;
--          4, 0, retry after in us, 0: full; 0, 0, 0, 0: the key is not a job
--
-- Redis refuses it when it is out of memory.

begin()
local out, arg = {}, 3

local function full(q, room)
  local wait
  if q.paused then
    wait = 30 * SECOND
  elseif q.n == 0 then
    wait = 100000
  else
    local interval = ceil(q.d / q.n)
    q.refn = max(q.refn, room)
    if q.refn > room + min(q.cap * interval, YEAR) then q.refn = room end
    wait = q.refn - now
    set(q, 'refn', q.refn + interval)
  end
  return max(wait, 1000)
end

-- place_of returns the position and turn of a waiting job, which may have come
-- in by this very call and have its place only in places.
local function place_of(q, id, waiting, places)
  local W = B .. 'w' .. q.nr
  local rank = call('ZRANK', W, id)
  if rank then return rank + 1, tonumber(call('ZSCORE', W, id)) end
  for i = 2, #places, 2 do
    if places[i] == id then return waiting + i / 2, places[i - 1] end
  end
  return 0, 0
end

-- known answers for an id that is taken: code, state, position, turn. It may
-- raise, when what is there is not ours.
local function known(q, id, old, body, waiting, places)
  if type(old) ~= 'string' then return 0, 0, 0, 0 end
  if sub(old, 17, 24) ~= sub(body, 9, 16) then return 3, 0, 0, 0 end
  local code = sub(old, 9, 16) == sub(body, 1, 8) and 1 or 2
  if sub(old, 1, 1) == 'E' then return code, (unpack_(ENDED, old, 27)), 0, 0 end
  local f = call('HGET', B .. 'f' .. q.nr, id)
  local state = f and (unpack_('>B', f)) or S.waiting
  if state ~= S.waiting then return code, state, 0, 0 end
  return code, state, place_of(q, id, waiting, places)
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
  local places, p, turn, others, refused = {}, 0, q.turn, {}, 0
  local exact = q.size == waiting and not q.paused
  local row = { now, q.n, q.d, q.b, q.tat, q.rem, q.last, q.lc, exact and 1 or 0, tonumber(head[2]) or turn, waiting, turn, others }
  local size, cap, cmax, args = q.size, q.cap, q.cmax, ARGV
  for i = first, first + 2 * count - 1, 2 do
    local id, body = args[i], args[i + 1]
    local key, value, old = J .. id, live .. body, false
    if size >= cap or call('SETNX', key, value) == 0 then old = redis.pcall('GET', key) end
    -- An ended job older than the retention is forgotten, whether or not Redis has dropped it yet.
    if old and type(old) == 'string' and sub(old, 1, 1) == 'E' and #old >= 26 and time_at(old) + q.rfor <= now then
      old = false
      if size < cap then call('SET', key, value) end
    end
    if not old and size < cap then
      places[p + 1], places[p + 2] = turn, id
      p = p + 2
      local high, low = byte(body, 17, 18)
      local cost = high * 256 + low
      turn = turn + cost
      size = size + 1
      if cost > cmax then cmax = cost end
    else
      local o = #others
      others[o + 1] = (i - first) / 2
      if old then
        local ok, code, state, position, its_turn = pcall(known, q, id, old, body, waiting, places)
        if not ok then
          code, state, position, its_turn = 0, 0, 0, 0
        end
        others[o + 2], others[o + 3], others[o + 4], others[o + 5] = code, state, position, its_turn
      else
        others[o + 2], others[o + 3], others[o + 4], others[o + 5] = 4, 0, full(q, room), 0
        refused = refused + 1
      end
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
  add(q, 'refused', refused)
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
