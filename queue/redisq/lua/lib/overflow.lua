-- needs: pace, stored
--
-- Jobs on the overflow, and the backlog that they make.
--
-- The record of a deferred job: 'D', 7 bytes of when it was set aside; stamp, fingerprint and cost where a live job has
-- them; 7 bytes of its ticket's number; 1 byte that is 1 once it was cancelled.
local DEFERRED, DEFERRED_BYTES = '>I7B', 34

-- load_overflow loads what a queue keeps of its overflow, unless it has been loaded.
local OVERFLOW = { 'mark', 'dcost', 'tickets', 'givenup', 'gen', 'genat', 'older', 'oldercost', 'roomat', 'backbytes',
  'headneed' }

local function load_overflow(q)
  if q.mark then return end
  local Q = B .. 'q' .. q.nr
  local v = call('HMGET', Q, 'deferred.max_jobs', 'deferred.max_age', 'overflow', unpack(OVERFLOW))
  q.dmax, q.dage, q.defers = tonumber(v[1]) or 0, tonumber(v[2]) or 0, v[3] == 'defer'
  for i, field in ipairs(OVERFLOW) do q[field] = q[field] or tonumber(v[3 + i]) or 0 end
end

-- remembered returns the job that the queue knows under an id, and of a deferred one its ticket's number and whether it
-- was cancelled; nil for none, and for one that counts as absent whether or not Redis has dropped it yet. It raises
-- when the key holds something else, and so is called before anything is written.
local function remembered(q, id)
  local job = call('GET', job_key(q.nr, id))
  if not job then return nil end
  local kind = sub(job, 1, 1)
  if kind == 'E' and #job >= 26 then
    if time_at(job) + q.rfor <= now then return nil end
    return job
  elseif kind == 'D' and #job == DEFERRED_BYTES then
    load_overflow(q)
    local number, cancelled = unpack_(DEFERRED, job, 27)
    if number <= q.givenup or time_at(job) + q.dage + q.rfor <= now then return nil end
    return job, number, cancelled > 0
  elseif LIVE[kind] and #job > 26 then
    return job
  end
  raise('WRONGTYPE', 'the job\'s key holds something else')
end

-- count_deferred counts jobs that were set aside, or that no longer are.
local function count_deferred(q, by, cost)
  load_overflow(q)
  local before = q.deferred
  set(q, 'deferred', max(0, q.deferred + by))
  set(q, 'dcost', max(0, q.dcost + cost))
  M.deferred = M.deferred + q.deferred - before
end

-- uncount_deferred takes a deferred job out of the counts, by its record.
local function uncount_deferred(q, record)
  load_overflow(q)
  local cost = cost_of(record)
  count_deferred(q, -1, -cost)
  if unpack_(DEFERRED, record, 27) <= q.gen then
    set(q, 'older', max(0, q.older - 1))
    set(q, 'oldercost', max(0, q.oldercost - cost))
  end
end

-- renew_deferral returns the number of a deferral, a new one if it is of the older generation: from now on another copy
-- of the job may be on its way to the overflow.
local function renew_deferral(q, id, record, number)
  if number > q.gen then return number end
  local fresh = q.tickets + 1
  call('SET', job_key(q.nr, id), sub(record, 1, 26) .. pack(DEFERRED, fresh, 0), 'KEEPTTL')
  uncount_deferred(q, record)
  set(q, 'tickets', fresh)
  count_deferred(q, 1, cost_of(record))
  return fresh
end

-- next_generation begins a new generation of deferrals once all that was stored before some instant has been seen. With
-- it the older one is over: what that still has recorded is not on the overflow. Returns how many deferrals are given
-- up.
local function next_generation(q, seen, on_the_way)
  if seen - q.genat <= on_the_way then return 0 end
  local missing = min(q.older, q.deferred)
  count_deferred(q, -missing, -q.oldercost)
  add(q, 'missing', missing)
  set(q, 'givenup', q.gen)
  set(q, 'gen', q.tickets)
  set(q, 'genat', now)
  set(q, 'older', q.deferred)
  set(q, 'oldercost', q.dcost)
  return missing
end

-- rank_of_deferred returns which place a job has among the deferred and what those before it cost, estimated from the
-- numbers of tickets.
local function rank_of_deferred(q, number)
  local rank = max(1, number - (q.tickets - q.deferred))
  return rank, q.deferred > 0 and floor(q.dcost * (rank - 1) / q.deferred) or 0
end

-- is_paused reports whether nothing leaves a queue because it or its parent is paused; is_paused_for_good, whether that
-- has no end that is known.
local function is_paused(q) return q.paused or q.group and q.group.paused end

local function is_paused_for_good(q)
  local g = q.group
  return q.paused and not q.till or g and g.paused and not g.till
end

-- longest_interval is the longest T among the paces of a queue itself, rounded up; 0 if it has none.
local function longest_interval(q)
  local T = q.n > 0 and ceil(q.d / q.n) or 0
  for _, l in ipairs(q.limits or {}) do
    if l.max == 0 then T = max(T, ceil(l.d / l.n)) end
  end
  return T
end

-- mark_bytes is how many of the bytes are for what comes back, as the mark is how many of the places.
local function mark_bytes(q) return floor(byte_limit(q) * q.mark / q.cap) end

-- fits_readmission reports whether so many bytes may come back from the overflow.
local function fits_readmission(q, need)
  return q.bytes + need <= byte_limit(q) and (q.back == 0 or q.backbytes + need <= mark_bytes(q))
end

-- jobs_to_leave is how many jobs of average size must leave for so many bytes to be free.
local function jobs_to_leave(over, held, jobs)
  if over <= 0 or held <= 0 then return 1 end
  return max(1, ceil(min(over, held) * jobs / held))
end

-- retry_after returns how long a caller is told to stay away who needs so many jobs to leave. Callers refused one after
-- the other are told instants one interval apart.
local function retry_after(q, jobs)
  local wait
  local room, interval = max(next_departure(q), q.stop or 0), longest_interval(q)
  if q.group and q.group ~= q then
    room, interval = max(room, next_departure(q.group)), max(interval, longest_interval(q.group))
  end
  if is_paused(q) then
    wait = 30 * SECOND
  elseif interval == 0 then
    wait = max(100000, room - now)
  else
    q.refn = max(q.refn, room)
    if q.refn > room + min(q.cap * interval, YEAR) then q.refn = room end
    wait = q.refn - now + min(((jobs or 1) - 1) * interval, YEAR)
    set(q, 'refn', q.refn + interval)
  end
  return max(wait, 1000)
end

-- track_backlog keeps the list of queues with a backlog.
local function track_backlog(q)
  if backlogged(q) then call('ZADD', B .. 'o', 'NX', now, q.name) else call('ZREM', B .. 'o', q.name) end
end

-- Until the first of those on the overflow fits, of which the last Readmit found that it does not, there is no room.
local function readmit_room(q)
  if q.headneed > 0 and not fits_readmission(q, q.headneed) then return 0 end
  return max(0, min(q.mark - q.back, q.cap - q.size))
end
local function readmit_batch(q) return min(500, max(1, ceil(q.mark / 4))) end
