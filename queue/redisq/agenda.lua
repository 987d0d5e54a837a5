-- Shared, behind lanes.lua: when a queue is next to be looked at.

-- able returns from when on the lanes of a queue let something out, its pace
-- allowing: any instant, if it is not one at which the first of them has rested; nil
-- if nothing waits, or only what is in flight now must end for it.
local function able(q)
  lanes(q)
  local plain = call('ZCARD', B .. 'w' .. q.nr)
  local waiting = plain + q.lw
  if waiting == 0 or q.mif > 0 and q.size - waiting - call('ZCARD', B .. 't' .. q.nr) >= q.mif then return nil end
  if plain > 0 and not (q.ordered and call('ZSCORE', B .. 'b' .. q.nr, ZERO)) then return 0 end
  if call('ZCARD', B .. 'L' .. q.nr) > 0 or call('ZCARD', B .. 'i' .. q.nr) > 0 then return 0 end
  local first = call('ZRANGE', B .. 'b' .. q.nr, 0, 0, 'WITHSCORES')[2]
  return first and first ~= 'inf' and tonumber(first) or nil
end

-- agenda notes when the queue is next worth a visit: when its first waiting job
-- can depart, and when its first scheduled job is due, or the first of its lanes has
-- rested if they all rest or are busy. Returns the earlier. When
-- a job came back (back is 'LT') to others that wait, the queue could have
-- departed since the earlier instant; so too, and since that one, when what came due
-- at since did (back is 'NX').
local function agenda(q, back, since)
  local departs, ripens
  if not q.paused then
    ripens = tonumber(call('ZRANGE', B .. 't' .. q.nr, 0, 0, 'WITHSCORES')[2])
    local from = 0
    if q.laned then from = able(q) elseif call('ZCARD', B .. 'w' .. q.nr) == 0 then from = nil end
    if from then
      departs = next_departure(q)
      if from > departs then
        ripens, departs = min(ripens or from, from), nil
      elseif since then
        departs = max(since, conforming(q))
      end
    end
  end
  if not departs then
    call('ZREM', B .. 'a', q.nr)
  elseif back then
    call('ZADD', B .. 'a', back, departs, q.nr)
  else
    call('ZADD', B .. 'a', departs, q.nr)
  end
  if ripens then call('ZADD', B .. 's', ripens, q.nr) else call('ZREM', B .. 's', q.nr) end
  return departs and min(departs, ripens or departs) or ripens
end

-- sooner is agenda after something that may have made something due before, or
-- have let a lane go on: then whoever watches is told.
local function sooner(q)
  local a, s = tonumber(call('ZSCORE', B .. 'a', q.nr)), tonumber(call('ZSCORE', B .. 's', q.nr))
  local e = agenda(q, 'LT')
  if e and e < min(a or e + 1, s or e + 1) then due(e) end
end
