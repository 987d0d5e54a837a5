#!lua flags=allow-oom
-- needs: overflow, room
-- for limits: groups
-- for receiver: receiver
--
-- Withdraw deferrals of jobs that could not be stored on the overflow.
--
-- ARGV[2]  number of jobs; for each: queue name, id, ticket
-- Returns  for each: how long until room is expected, in us; 0 if there is no such queue; the text of an error

begin()
call('ZCARD', B .. 'o')
local out, queues = {}, {}

local function withdraw(name, id, ticket)
  local q = queues[name]
  if q == nil then
    local nr = numberOf(name)
    q = nr and load(nr) or false
    queues[name] = q
  end
  if not q then return 0 end
  local ok, job, number, cancelled = pcall(remembered, q, id)
  if ok and number and not cancelled and ticket == q.nr .. '.' .. number then
    call('UNLINK', jobKey(q.nr, id))
    uncountDeferral(q, job)
    local label = deferredBatch(q, job)
    if label then batches.leaveBatch(q, label, id) end
    add(q, 'set_aside', -1)
  end
  return retryAfter(q)
end

for i = 1, tonumber(ARGV[2]) do
  local ok, answer = pcall(withdraw, ARGV[3 * i], ARGV[3 * i + 1], ARGV[3 * i + 2])
  out[i] = ok and answer or errorText(answer)
end
for _, q in pairs(queues) do
  if q then
    trackBacklog(q)
    save(q)
  end
end
finish()
return out
