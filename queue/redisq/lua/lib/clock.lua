-- The clock of the partition.

local now -- one instant for the whole script

-- clock sets now, by the server's clock and an offset, but never before last, which it was before. It returns the
-- offset from now on: when the server's clock was set back the offset grows, so that now does not run back
-- (invariant 9).
local function clock(last, offset)
  local t
  if ARGV[1] ~= '' then
    t = ARGV[1] + 0
  else
    local time = call('TIME')
    t = time[1] * SECOND + time[2]
  end
  now = max(last, t + offset)
  return now - t
end
