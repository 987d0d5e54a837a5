-- needs: lanes
-- gives: laneOf
--
-- The state of a lane, as clients see it.

-- laneOf appends the state of a lane to the row.
local function laneOf(q, lane, row)
  local rule, l = ruleOf(q, lane), { tat = 0, rem = 0, last = 0, lastCost = 0 }
  if rule.paced then l = bucketOf(q, lane, rule, now) end
  local stop = q.receiver and receiver.stopsUntil(q, lane) or 0
  if rule.n > 0 and stop > 0 and stop <= now then receiver.rise(l, stop) end
  if stop <= now then stop = 0 end
  local size, bytes = laneSize(q, lane)
  local states = {}
  for i, own in ipairs(l.limits or {}) do states[i] = { own.tat, own.rem, own.last, own.wants } end
  for _, value in ipairs({ call('ZCARD', waitingKey(q, lane)), size, l.tat, l.rem, l.last, l.lastCost, stop,
    bytes, states }) do
    row[#row + 1] = value
  end
end
