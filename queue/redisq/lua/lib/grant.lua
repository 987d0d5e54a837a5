-- needs: unsent, request, shares, stored
-- gives: grant_job, write_departures, count_lost_slots
--
-- Jobs that leave, and those that would leave too late.

-- drop_vanished frees the place of a job that somebody else removed from the store, and notes it as an error.
local function drop_vanished(q, id)
  -- Other jobs of the queue may have been granted, and must not be lost because the list of errors is not ours.
  try_for(q.nr, note_error, q, id, 'the job was removed from the store by somebody else')
  local freeing = new_freed()
  add_freed(freeing, average_bytes(q))
  give_places_back(q, freeing)
  call('HDEL', B .. 'f' .. q.nr, id)
  if q.expiring then forget_expiries(q, { id }) end
end

-- too_late reports whether the job at the head would depart within the horizon, but after it has expired.
local function too_late(q, job)
  local at = #job >= 34 and expires_at(job, 27) or math.huge
  if at >= now + HORIZON then return false end
  if cost_of(job) > q.hc then cover(q, cost_of(job)) end -- its departure is the one that it would get
  local d = next_departure(q)
  return at < d and d <= now + HORIZON
end

-- deadline_of is when the lease of a departure ends, as a text: Redis takes four times as long to write a number out.
-- Many that are granted together depart together.
local departs, lasts, deadline
local function deadline_of(d, lease)
  if d ~= departs or lease ~= lasts then
    departs, lasts, deadline = d, lease, string.format('%d', d + lease)
  end
  return deadline
end

-- grant_job grants a job: it departs at d. lane is its lane as a lease record has it, or nothing.
local function grant_job(q, leases, flights, rows, id, turn, job, entry, d, state, lane)
  local attempts, settled = 0, NEVER_SETTLED .. lane
  if entry and #entry >= SETTLED then
    attempts, settled = unpack_('>I2', entry, 2), sub(entry, SETTLED)
  end
  M.last_fence, M.first_lease = M.last_fence + 1, min(M.first_lease, d + q.lease)
  q.lf = M.last_fence
  local l, f, r, g = #leases, #flights, #rows, #granted
  leases[l + 1], leases[l + 2] = deadline_of(d, q.lease), q.nr .. ':' .. id
  flights[f + 1], flights[f + 2] = id, pack(LEASE_HEAD, state, attempts, turn, d, M.run, M.last_fence, me,
    bytes_of(id, #job)) .. settled
  rows[r + 1], rows[r + 2], rows[r + 3], rows[r + 4], rows[r + 5] = id, M.last_fence, attempts + 1, d - now, job
  granted[g + 1], granted[g + 2], granted[g + 3] = q.nr, id, M.last_fence
  if q.expiring and byte(job, 27) % (2 * EXPIRES) >= EXPIRES then
    q.spared = q.spared or {}
    table.insert(q.spared, id)
  end
  free_handlers, bytes = free_handlers - 1, bytes + #job
  shares.use(q.nr)
end

-- write_departures writes down what left a queue in a visit.
local function write_departures(q, leases, flights)
  local count = #leases / 2
  if count == 0 then return end
  call('ZADD', B .. 'l', unpack(leases))
  call('HSET', B .. 'f' .. q.nr, unpack(flights))
  if q.spared then forget_expiries(q, q.spared) end
  M.leased = M.leased + count
  set(q, 'lf', q.lf)
  count_departures(q, count)
end

-- count_lost_slots counts departures that a queue could have had while nobody asked.
local function count_lost_slots(nr, name, slots)
  if slots <= 0 then return end
  lost[#lost + 1] = name
  lost[#lost + 1] = slots
  call('HINCRBY', B .. 'q' .. nr, 'slots_lost', slots)
end
