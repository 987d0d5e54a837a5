-- The clock of the partition.

local FOLLOWED, UNVOUCHED, DOUBTED, REPORTED = 500000, 3000000, 3000000, 5000000

-- One instant for the whole script: now by the engine's clock, wall by the server's clock. skew is now minus wall.
local now, wall, skew

-- look reads the clock c. latest is the last instant that the clock can show as the caller knows it, nil if it does
-- not. known is the same of a caller whose calls may be slow, and counts only if nobody has vouched for long. See
-- Clock.Look in queue/machine/clock.go.
local function look(c, latest, known)
  if ARGV[1] ~= '' then
    wall = ARGV[1] + 0
  else
    local time = call('TIME')
    wall = time[1] * SECOND + time[2]
  end
  if not c.vouched then -- as an older version left it
    c.vouched, c.doubt, c.jumped, c.jumps, c.filed, c.filedAt, c.refiling = 0, 0, 0, 0, c.offset, 0, 0
  end
  now = wall + c.offset
  local unsure = c.vouched > 0 and now > c.vouched + UNVOUCHED
  if unsure then latest = latest or known end
  if latest and c.doubt > 0 then
    now = min(now, latest, wall + (c.ahead or c.offset))
  elseif latest and now > latest + FOLLOWED then
    now = latest
  elseif not latest and unsure then
    if c.doubt == 0 or wall < c.doubt then c.doubt = wall end
    if wall <= c.doubt + DOUBTED then
      now, skew = c.clockLast, c.clockLast - wall
      c.ahead = skew
      return
    end
    c.vouched, c.doubt = 0, 0
  end
  now = max(now, c.clockLast)
  skew = now - wall
  if max(skew - c.offset, c.offset - skew) >= REPORTED then c.jumped, c.jumps = now, c.jumps + 1 end
  c.offset, c.ahead = skew, skew
  if latest then c.vouched, c.doubt = now, 0 end
end
