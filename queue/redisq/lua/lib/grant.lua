-- needs: unsent, request, shares, stored, reign
-- gives: grantJob, writeDepartures, countLost, departureFor
--
-- Grants departures, and finds jobs that would depart too late.

-- dropVanished frees the place of a job that another program removed from the store, and notes that as a failure.
local function dropVanished(q, id)
  -- Other jobs of the queue may have been granted. They must not be lost if the list of failures is another program's
  -- key.
  tryFor(q.nr, noteFailure, q, id, 'the job was removed from the store by another program')
  local freeing = newFreed()
  addFreed(freeing, averageBytes(q))
  givePlacesBack(q, freeing)
  call('HDEL', B .. 'f' .. q.nr, id)
  if q.expiring then forgetExpiries(q, { id }) end
end

-- departureFor returns the next departure of a queue for this client.
local function departureFor(q, paced)
  local d = nextDeparture(q)
  if paced then d = apart(q, max(request.from, d)) end
  return q.hours and limits.nextOpen(q.hours, d) or d
end

-- tooLate reports whether the first job would depart within the horizon, but after it expires.
local function tooLate(q, job, paced)
  local at = #job >= 34 and expiresAt(job, 27) or math.huge
  at = at + skew
  if at >= now + HORIZON then return false end
  if costOf(job) > q.coveredCost then cover(q, costOf(job)) end -- the departure that it would get
  local d = departureFor(q, paced)
  return at < d and d <= now + HORIZON
end

-- deadlineOf returns when the lease of a departure ends, as a text: Redis takes four times as long to format a number.
-- Jobs that are granted together often depart together.
local departs, lasts, deadline
local function deadlineOf(d, lease)
  if d ~= departs or lease ~= lasts then
    departs, lasts, deadline = d, lease, string.format('%d', d + lease)
  end
  return deadline
end

-- countLost counts departures that a queue could have had while no client asked.
local function countLost(nr, name, slots)
  if slots <= 0 then return end
  lost[#lost + 1] = name
  lost[#lost + 1] = slots
  call('HINCRBY', B .. 'q' .. nr, 'slots_lost', slots)
end

-- grantJob grants a job, to depart at d. lane is its lane as a lease record has it, '' without a key.
local function grantJob(q, leases, flights, rows, id, turn, job, entry, d, state, lane)
  local attempts, settled = 0, NEVER_SETTLED .. lane
  if entry and #entry >= SETTLED then
    attempts, settled = unpackStruct('>I2', entry, 2), sub(entry, SETTLED)
  end
  M.lastFence, M.firstLease = M.lastFence + 1, min(M.firstLease, d + q.lease)
  q.lastFence = M.lastFence
  local l, f, r, g = #leases, #flights, #rows, #granted
  leases[l + 1], leases[l + 2] = deadlineOf(d, q.lease), q.nr .. ':' .. id
  flights[f + 1], flights[f + 2] = id, pack(LEASE_HEAD, state, attempts, turn, d, M.run, M.lastFence, me,
    bytesOf(id, #job)) .. settled
  rows[r + 1], rows[r + 2], rows[r + 3], rows[r + 4], rows[r + 5] = id, M.lastFence, attempts + 1, d - now, job
  granted[g + 1], granted[g + 2], granted[g + 3] = q.nr, id, M.lastFence
  if q.expiring and byte(job, 27) % (2 * EXPIRES) >= EXPIRES then
    q.grantedExpiring = q.grantedExpiring or {}
    table.insert(q.grantedExpiring, id)
  end
  freeHandlers, bytes = freeHandlers - 1, bytes + #job
  shares.use(q.nr)
end

-- writeDepartures writes the jobs that left a queue in a visit. The leases of the first visit are written at once,
-- which raises if their key is another program's. Later ones are written together at the end.
local function writeDepartures(q, leases, flights)
  local count = #leases / 2
  if count == 0 then return end
  local later = request.leases
  if later then
    for _, value in ipairs(leases) do later[#later + 1] = value end
  else
    call('ZADD', B .. 'l', unpack(leases))
    request.leases = {}
  end
  call('HSET', B .. 'f' .. q.nr, unpack(flights))
  if q.grantedExpiring then forgetExpiries(q, q.grantedExpiring) end
  M.leased = M.leased + count
  set(q, 'lastFence', q.lastFence)
  countDepartures(q, count)
end
