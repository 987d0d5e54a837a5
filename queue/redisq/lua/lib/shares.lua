-- needs: request
--
-- Shares: how many more jobs the client may take of some queues. A queue whose share is used up is left to other
-- clients: it keeps its place on the agenda, and has no influence on when this client asks again.
--
-- left and names are by the numbers of the named queues. passed has the queues left on the agenda; short has the names
-- of queues that could use a larger share; first is when a job can depart from a group that was passed over.

shares.left, shares.names, shares.short, shares.passed, shares.count = {}, {}, {}, {}, 0

if ARGV[14] then
  local names = {}
  for i = 14, #ARGV, 2 do names[#names + 1] = ARGV[i] end
  for i, nr in ipairs(call('HMGET', B .. 'n', unpack(names))) do
    if nr then shares.left[nr], shares.names[nr] = tonumber(ARGV[13 + 2 * i]), names[i] end
  end
end

function shares.usedUp(nr) return (shares.left[nr] or 1) <= 0 end

function shares.use(nr)
  if shares.left[nr] then shares.left[nr] = shares.left[nr] - 1 end
end

-- anyNewlyShort reports whether a queue is short that was not short at the client's last request.
function shares.anyNewlyShort()
  local before = {}
  for _, name in ipairs(last and last[LAST_SHORT] or {}) do before[name] = true end
  for _, name in ipairs(shares.short) do
    if not before[name] then return true end
  end
  return false
end

function shares.fallShort(nr) shares.short[#shares.short + 1] = shares.names[nr] end

function shares.pass(nr)
  shares.passed[nr], shares.count = true, shares.count + 1
end

-- passOver reports whether a due queue is left to other clients, and notes it if so. A parent's number stands for its
-- group.
function shares.passOver(nr)
  if not shares.usedUp(nr) then return false end
  local also = redis.pcall('HGET', B .. 'q' .. nr, 'links')
  if type(also) == 'string' and string.match(also, ':(.*)$') == nr then return false end
  shares.pass(nr)
  shares.fallShort(nr)
  return true
end

-- passOverUsedUp does the same after a visit, if the share is used up and more is due.
function shares.passOverUsedUp(nr)
  local e = shares.usedUp(nr) and tonumber(call('ZSCORE', B .. 'a', nr))
  if e and e <= now + HORIZON then
    shares.pass(nr)
    shares.fallShort(nr)
  end
end

-- firstDeparture returns when a job can depart that the client may have.
function shares.firstDeparture()
  local found = call('ZRANGE', B .. 'a', 0, shares.count, 'WITHSCORES')
  for i = 1, #found, 2 do
    if not shares.passed[found[i]] then return min(tonumber(found[i + 1]), shares.first or math.huge) end
  end
  return shares.first
end
