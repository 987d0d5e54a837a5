-- leaky/slidingcounter.go, behind tally.lua.

local COUNTS, COUNTS_BYTES = '>I6I7I4I4', 21 -- period, end of the window, used in it and in the one before

local function share(l, used, left) return ceil(used * left / l.second) end

-- leftAt returns the most that is left of a window when the share of the window before has fallen to room.
local function leftAt(l, used, room)
  if used <= room then return l.second end
  local left = floor(room * l.second / used)
  while share(l, used, left) > room do left = left - 1 end
  while share(l, used, left + 1) <= room do left = left + 1 end
  return left
end

local function ends(l, used, before, endAt)
  if used > 0 then return endAt + l.second - now end
  return before > 0 and endAt - now or 0
end

-- counts returns the use of this window and of the one before.
local function counts(l, text)
  local endAt = now + l.second - now % l.second
  if not text or #text ~= COUNTS_BYTES then return 0, 0, endAt end
  local period, of, used, before = unpackStruct(COUNTS, text)
  if period ~= l.second then return 0, 0, endAt, true end
  if of == endAt or of == endAt + l.second then
    return min(used, MAX_LIMIT), min(before, MAX_LIMIT), endAt, of > endAt
  end
  return 0, of == endAt - l.second and min(used, MAX_LIMIT) or 0, endAt, of > endAt
end

local function ask(l, text, cost)
  local used, before, endAt, settled = counts(l, text)
  local shared, had = share(l, before, endAt - now), ends(l, used, before, endAt)
  local was = had > 0 and not settled and now + had or 0
  if shared + used + cost <= l.most then
    return true, l.most - shared - used - cost, 0, endAt + l.second - now,
      pack(COUNTS, l.second, endAt, used + cost, before), was
  end
  local passes = l.most - cost - used >= 0 and endAt - leftAt(l, before, l.most - cost - used)
    or endAt + l.second - leftAt(l, used, l.most - cost)
  return false, max(0, l.most - shared - used), passes - now, had,
    settled and pack(COUNTS, l.second, endAt, used, before), was
end

local function back(l, text, cost)
  local used, before, endAt = counts(l, text)
  local ofUsed = min(cost, used)
  used, before = used - ofUsed, before - min(cost - ofUsed, before)
  return pack(COUNTS, l.second, endAt, used, before), ends(l, used, before, endAt)
end
