-- leaky/slidingcounter.go, behind tally.lua.

local COUNTS, COUNTS_BYTES = '>I6I7I4I4', 21 -- period, end of the window, used in it and in the one before

local function share(l, used, left) return ceil(used * left / l.second) end

-- left_at is the most that is left of a window when the share of the one before it has fallen to room.
local function left_at(l, used, room)
  if used <= room then return l.second end
  local left = floor(room * l.second / used)
  while share(l, used, left) > room do left = left - 1 end
  while share(l, used, left + 1) <= room do left = left + 1 end
  return left
end

local function ends(l, s)
  if s.used > 0 then return s.end_at + l.second - now end
  return s.before > 0 and s.end_at - now or 0
end

local function read(l, s, value)
  s.end_at, s.used, s.before = now + l.second - now % l.second, 0, 0
  if not value or #value ~= COUNTS_BYTES then return end
  local period, end_at, used, before = unpack_(COUNTS, value)
  s.settled = end_at > s.end_at or period ~= l.second
  if period ~= l.second then return end
  if end_at == s.end_at or end_at == s.end_at + l.second then
    s.used, s.before = min(used, MAX_LIMIT), min(before, MAX_LIMIT)
  elseif end_at == s.end_at - l.second then
    s.before = min(used, MAX_LIMIT)
  end
end

local function ask(l, s, cost)
  local before, used = share(l, s.before, s.end_at - now), s.used
  if before + used + cost <= l.most then return true, l.most - before - used - cost, 0, s.end_at + l.second - now end
  local passes = l.most - cost - used >= 0 and s.end_at - left_at(l, s.before, l.most - cost - used) or s.end_at + l.second - left_at(l, used, l.most - cost)
  return false, max(0, l.most - before - used), passes - now, ends(l, s)
end

local function take(_, s, cost) s.used = s.used + cost end

local function back(_, s, cost)
  local of_used = min(cost, s.used)
  s.used = s.used - of_used
  s.before = s.before - min(cost - of_used, s.before)
end

local function anew(s) s.used, s.before = 0, 0 end
local function write(l, s, px) call('SET', s.key, pack(COUNTS, l.second, s.end_at, s.used, s.before), 'PX', px) end
