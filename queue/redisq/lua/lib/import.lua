-- needs: departures
--
-- Which import a queue is open for, and what it gets of its export.

-- importOf returns the mark of a queue's latest import, or '', and whether it is not closed yet.
local function importOf(nr)
  local mark, open = unpack(call('HMGET', B .. 'q' .. nr, 'importMark', 'importOpen'))
  return mark or '', open == '1'
end

-- laterBucket gives a bucket its exported state, which begins at an argument, if that is later than its present state.
-- A new queue may continue from a deleted one of the same name, whose bucket may be the later one.
local function laterBucket(l, at)
  local b = { n = l.n, d = l.d, burst = l.burst, tat = tonumber(ARGV[at]), rem = tonumber(ARGV[at + 1]),
    last = tonumber(ARGV[at + 2]), lastCost = tonumber(ARGV[at + 3]) }
  bounded(b)
  bounded(l)
  if b.tat > l.tat or b.tat == l.tat and b.rem > l.rem then
    l.tat, l.rem, l.last, l.lastCost = b.tat, b.rem, b.last, b.lastCost
  end
end

-- continueFrom makes a queue's bucket and limits continue from those of the export: tat, rem, last and last cost of the
-- bucket begin at an argument. The number of limits is at another, and each limit has tat, rem, last and last cost (a
-- budget what it wants), or the end of its window, its use, its step and 0. It returns the index behind them.
local function continueFrom(q, bucketAt, limitsAt)
  laterBucket(q, bucketAt)
  local count = tonumber(ARGV[limitsAt])
  for i, l in ipairs(q.limits or {}) do
    local at = limitsAt + 4 * i - 3
    if i <= count and l.pace then
      laterBucket(l, at)
    elseif i <= count and l.budget then
      local b = { n = l.n, d = l.d, burst = l.burst, tat = tonumber(ARGV[at]), rem = tonumber(ARGV[at + 1]),
        last = tonumber(ARGV[at + 2]), wants = tonumber(ARGV[at + 3]) }
      limits.creditReadyAt(b)
      limits.creditReadyAt(l)
      if b.tat > l.tat or b.tat == l.tat and b.rem > l.rem then
        l.tat, l.rem, l.last, l.wants = b.tat, b.rem, b.last, b.wants
      end
    elseif i <= count then
      local ends, used = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
      l.step = max(l.step, tonumber(ARGV[at + 2]))
      if ends > l.windowEnds or ends == l.windowEnds and used > l.used then l.windowEnds, l.used = ends, used end
    end
  end
  return limitsAt + 1 + 4 * count
end
