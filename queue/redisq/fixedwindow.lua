-- leaky/fixedwindow.go, behind tally.lua.

local function read(l, s, value)
  s.end_at, s.used = now + l.second - now % l.second, 0
  if not value or #value ~= 11 then return end
  local end_at, used = unpack_('>I7I4', value)
  if end_at == s.end_at or end_at == s.end_at + l.second then s.used = min(used, MAX_LIMIT) end
  s.settled = end_at > s.end_at
end

local function ends(_, s) return s.used > 0 and s.end_at - now or 0 end

local function ask(l, s, cost)
  if s.used + cost <= l.most then return true, l.most - s.used - cost, 0, s.end_at - now end
  return false, max(0, l.most - s.used), s.end_at - now, ends(l, s)
end

local function take(_, s, cost) s.used = s.used + cost end
local function back(_, s, cost) s.used = s.used - min(cost, s.used) end
local function anew(s) s.used = 0 end
local function write(_, s, px) call('SET', s.key, pack('>I7I4', s.end_at, s.used), 'PX', px) end
