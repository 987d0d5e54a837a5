#!lua
-- Append jobs, grouped by queue.
--
-- ARGV[2]  number of queues; for each: name, number of jobs; for each job: id,
--          stamp (8 bytes, unique to the job in its append call), record
-- Returns  for each queue: 0 when unknown, the text of an error, or {now, n, d, burst, tat, rem,
--          last, last cost, turn of the first waiting job, 1 if an eta is exact, and four numbers a job}:
--          {1, state, position, turn} accepted; {2, state, position, 0} duplicate; {3, 0, 0, 0} conflict;
--          {4, 0, retry after in us, 0} full; {0, 0, 0, 0} the key is not a job
--
-- The only script that Redis refuses when it is out of memory.

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
    if q.refn > room + q.cap * interval then q.refn = room end
    wait = q.refn - now
    set(q, 'refn', q.refn + interval)
  end
  return max(wait, 1000)
end

local function known(q, row, i, id, old, stamp, record)
  if type(old) ~= 'string' then
    row[i] = 0
    return
  end
  if sub(old, 17, 24) ~= sub(record, 1, 8) then
    row[i] = 3
    return
  end
  row[i] = 2
  if sub(old, 2, 9) == stamp then row[i] = 1 end -- this very call, repeated after a lost reply
  if sub(old, 1, 1) == 'E' then
    row[i + 1] = (unpack_(ENDED, old, 27))
    return
  end
  local f = call('HGET', B .. 'f' .. q.nr, id)
  row[i + 1] = f and (unpack_('>B', f)) or S.waiting
  if row[i + 1] == S.waiting then
    row[i + 2] = (call('ZRANK', B .. 'w' .. q.nr, id) or -1) + 1
    if row[i] == 1 then row[i + 3] = tonumber(call('ZSCORE', B .. 'w' .. q.nr, id)) or 0 end
  end
end

local function append(name, count, first)
  local nr = number_of(name)
  local q = nr and load(nr)
  if not q then return 0 end
  local W, J = B .. 'w' .. nr, B .. 'j' .. nr .. ':'
  local head = call('ZRANGE', W, 0, 0, 'WITHSCORES')
  local waiting = call('ZCARD', W)
  local room = next_departure(q)
  local time = pack('>I7', now)
  local places, turn, accepted, refused = {}, q.turn, 0, 0
  local exact = q.size == waiting and not q.paused
  local row = { now, q.n, q.d, q.b, q.tat, q.rem, q.last, q.lc, tonumber(head[2]) or turn, exact and 1 or 0 }
  for j = 0, count - 1 do
    local id, stamp, record = ARGV[first + 3 * j], ARGV[first + 3 * j + 1], ARGV[first + 3 * j + 2]
    local i, key = 11 + 4 * j, J .. id
    row[i], row[i + 1], row[i + 2], row[i + 3] = 0, 0, 0, 0
    local old
    local value = 'L' .. stamp .. time .. record
    if q.size < q.cap then
      old = redis.pcall('SET', key, value, 'NX', 'GET')
    else
      old = redis.pcall('GET', key)
    end
    -- An ended job older than the retention is forgotten, whether or not Redis has dropped it yet.
    if type(old) == 'string' and sub(old, 1, 1) == 'E' and time_at(old) + q.rfor <= now then
      old = false
      if q.size < q.cap then call('SET', key, value) end
    end
    if old then
      known(q, row, i, id, old, stamp, record)
    elseif q.size < q.cap then
      accepted = accepted + 1
      places[2 * accepted - 1], places[2 * accepted] = turn, id
      row[i], row[i + 1], row[i + 2], row[i + 3] = 1, S.waiting, waiting + accepted, turn
      local cost = (unpack_('>I2', record, 9))
      turn = turn + cost
      q.size = q.size + 1
      if cost > q.cmax then set(q, 'cmax', cost) end
    else
      row[i], row[i + 2] = 4, full(q, room)
      refused = refused + 1
    end
  end
  if accepted > 0 then
    call('ZADD', W, unpack(places))
    set(q, 'turn', turn)
    set(q, 'size', q.size)
    add(q, 'appended', accepted)
    M.tw = M.tw + accepted
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
  arg = arg + 2 + 3 * count
end
finish()
return out
