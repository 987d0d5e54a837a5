-- needs: pace
--
-- How a bucket changes to another rate or burst.

-- change is leaky.Pacer.Change at an instant; latest is a horizon later.
local function change(q, n, d, b, at, latest)
  local function times(k) return k * floor(d / n) + ceil(k * (d % n) / n) end -- ceil(k x T) at the new rate
  bounded(q, latest)
  local tat, a = q.tat, max(at, q.last)
  if q.rem > 0 then tat = tat + 1 end
  if n == 0 then
    tat = min(tat, a)
  elseif q.n == 0 then
    tat = a + times(q.lastCost)
  else
    if tat > a then tat = a + ceil((tat - a) * (d / n / (q.d / q.n))) end
    if b > q.burst then tat = tat + times(b - q.burst) end
  end
  q.tat, q.rem, q.n, q.d, q.burst = tat, 0, n, d, b
  bounded(q, latest)
end

-- atRest prepares a bucket to outlive its queue: no remainder, and within its bounds.
local function atRest(q)
  change(q, q.n, q.d, q.burst, now, now + HORIZON)
  if q.rem > 0 then q.tat, q.rem = q.tat + 1, 0 end
end
