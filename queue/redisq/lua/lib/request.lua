-- needs: run, lostleases
--
-- A call of reserve: the client, and the parts of the answer.

-- The values kept of a client's last request: its number, the run of the server, the client's number, the queues that
-- could use a larger share, what it was granted lately, and the grants of the request, three values a job.
local LAST_NUMBER, LAST_RUN, LAST_CLIENT, LAST_SHORT, LAST_LATELY, LAST_GRANTED = 1, 2, 3, 4, 5, 6
local REIGN_CLOCK, REIGN_FIRST, REIGN_LATEST, REIGN_BY = 1, 2, 3, 4 -- see reign.lua

begin(tonumber(ARGV[13]))
checkRun()
local client = ARGV[2]
local mostBytes, grantKey = tonumber(ARGV[7]), B .. 'g:' .. client
local last = call('GET', grantKey)
if last then last = cmsgpack.unpack(last) end
if ARGV[9] ~= '' then
  pulled = numberOf(ARGV[9])
  local q = pulled and readQueue(pulled)
  if not q then return { -1 } end
  -- A repeated request is answered whatever the queue's spec is by now.
  if not q.pull and (not last or tonumber(ARGV[5]) > last[LAST_NUMBER]) then return { -2 } end
  pulledParent = string.match(q.links or '', ':(.+)$')
end
local lost, answers, answering, granted, bytes, lates = {}, {}, nil, {}, 0, 0
local freeHandlers = tonumber(ARGV[6]) -- handlers
local shares = {} -- see shares.lua
-- State that visits share: the client's clock, lead and uncertainty; the number of queues visited; how many scheduled
-- jobs may still become ready; the first and the latest paced departure granted; leases that are still to be written,
-- each behind its deadline; again, when to look again at a slot that was left to other clients.
local request = { clock = ARGV[12], lead = min(tonumber(ARGV[10]), HORIZON), visits = 0, toRipen = 100,
  uncertainty = min(tonumber(ARGV[11]), HORIZON) }

-- No paced departure is granted before request.from, and none at all if the client is barred. Changing from an
-- uncertain client to another costs its uncertainty. So the uncertain client may go on until half a horizon before that
-- instant, and it is barred while another client watches.
request.from = now + request.lead
request.barred = not pulled and request.uncertainty > 0 and M.watcher ~= '' and M.watcher ~= OFFERED
  and M.watcher ~= client and now < M.watchUntil + HORIZON / 2
local newest = M.reigns and M.reigns[#M.reigns]
if newest and newest[REIGN_CLOCK] ~= request.clock and newest[REIGN_LATEST] + newest[REIGN_BY] > request.from then
  request.from = newest[REIGN_LATEST] + newest[REIGN_BY]
  request.barred = request.barred or request.from > now + HORIZON / 2
end
local MOST_LATE = 100 -- maximum number of expired jobs that a call ends

local me = last and last[LAST_CLIENT] -- the number by which lease records know the client
if not me then
  local seq = call('HINCRBY', B, 'cseq', 1)
  me = seq % 65535 + 1
  call('HSET', B .. 'k', me, ARGV[8])
  call('HDEL', B .. 'k', (seq - 1000) % 65535 + 1)
end

-- rowsOf returns where the answer lists the grants of a queue, with fences of this run or another epoch. Grants stand
-- in the order in which they were made.
local function rowsOf(q, epoch)
  if answering ~= q.nr then
    answers[#answers + 1] = { q.name, q.revision, q.lease, epoch or M.run, {} }
    answering = q.nr
  end
  return answers[#answers][5]
end
