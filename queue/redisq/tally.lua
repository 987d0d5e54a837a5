-- Shared by take.lua and, made where a queue asks its jobs, append.lua: what was taken under a key, by the arithmetic of leaky's
-- limiters. All numbers are doubles, and the products of whole ones stay below 2^53, as in Go; the others are
-- computed in the same steps there.
--
-- A bound l is the numbers of a limiter, a tally s what was taken under one key, as of now, which is the same in all of a
-- script. For each arithmetic there is a table of functions:
--   read(l, s)           what value, or the key, holds; foreign is what is not ours, and counts for nothing
--   ask(l, s, cost, place)  returns whether it is allowed, what remains, the time to try again after, that until all is as fresh
--   take(l, s, cost, place) what was allowed when it was asked for last
--   back(l, s, cost, place) gives back
--   anew(s)              forgets
--   ends(l, s)           the time until it is as fresh
--   write(l, s, px)      keeps it so long
-- A tally that a clock jump or somebody left ahead of now is put right by the next that takes, as settled says.

local MAX_LIMIT, MAX_ENTRIES = 1000000000, 10000
local kinds = {}

local function up(us, rest) return rest > 0 and us + 1 or us end

local function write_text(s, text, px) call('SET', s.key, text, 'PX', px) end

-- leaky/meter.go: us and rest are what is owed.
kinds.m = function()
  local function times(l, k)
    local rest = k * l.part
    return k * l.whole + floor(rest / l.n), rest % l.n
  end

  local function less(l, k, us, rest)
    local whole, part = times(l, k)
    return whole < us or whole == us and part < rest
  end

  local function units(l, us, rest)
    local k = floor(us * l.n / l.d)
    while less(l, k, us, rest) do k = k + 1 end
    while k > 0 and not less(l, k - 1, us, rest) do k = k - 1 end
    return k
  end

  local function read(l, s)
    if not l.whole then
      l.n, l.d = l.second, l.third
      l.whole, l.part = floor(l.d / l.n), l.d % l.n
      l.us, l.rest = times(l, l.most)
    end
    s.us, s.rest = 0, 0
    if not s.value or #s.value ~= 11 then return end
    local tat, rem = unpack_('>I7I4', s.value)
    if tat < now then return end
    s.us, s.rest = tat - now, min(rem, l.n - 1)
    if s.us > l.us or s.us == l.us and s.rest > l.rest then s.us, s.rest, s.settled = l.us, l.rest, true end
  end

  local function ask(l, s, cost)
    local us, rest = times(l, cost)
    us, rest = us + s.us, rest + s.rest
    if rest >= l.n then us, rest = us + 1, rest - l.n end
    if us < l.us or us == l.us and rest <= l.rest then
      s.next_us, s.next_rest = us, rest
      return true, l.most - units(l, us, rest), 0, up(us, rest)
    end
    return false, l.most - units(l, s.us, s.rest), up(us - l.us, rest - l.rest), up(s.us, s.rest)
  end

  local function back(l, s, cost)
    local us, rest = times(l, min(cost, l.most))
    us, rest = s.us - us, s.rest - rest
    if rest < 0 then us, rest = us - 1, rest + l.n end
    if us < 0 then us, rest = 0, 0 end
    s.us, s.rest = us, rest
  end

  return {
    read = read, ask = ask, back = back,
    take = function(_, s) s.us, s.rest = s.next_us, s.next_rest end,
    anew = function(s) s.us, s.rest = 0, 0 end,
    ends = function(_, s) return up(s.us, s.rest) end,
    write = function(_, s, px) write_text(s, pack('>I7I4', now + s.us, s.rest), px) end,
  }
end

-- window_end is when the window of a period ends that now is in.
local function window_end(l) return now + l.second - now % l.second end

-- leaky/fixedwindow.go
kinds.f = function()
  local function left(l, s) return s.used > 0 and s.end_at - now or 0 end

  local function read(l, s)
    s.end_at, s.used = window_end(l), 0
    if not s.value or #s.value ~= 11 then return end
    local end_at, used = unpack_('>I7I4', s.value)
    if end_at == s.end_at or end_at == s.end_at + l.second then s.used = min(used, MAX_LIMIT) end
    s.settled = end_at > s.end_at
  end

  local function ask(l, s, cost)
    if s.used + cost <= l.most then return true, l.most - s.used - cost, 0, s.end_at - now end
    return false, max(0, l.most - s.used), s.end_at - now, left(l, s)
  end

  return {
    read = read, ask = ask, ends = left,
    take = function(_, s, cost) s.used = s.used + cost end,
    back = function(_, s, cost) s.used = s.used - min(cost, s.used) end,
    anew = function(s) s.used = 0 end,
    write = function(_, s, px) write_text(s, pack('>I7I4', s.end_at, s.used), px) end,
  }
end

-- leaky/slidingcounter.go
kinds.c = function()
  local COUNTS, COUNTS_BYTES = '>I6I7I4I4', 21

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

  local function read(l, s)
    s.end_at, s.used, s.before = window_end(l), 0, 0
    if not s.value or #s.value ~= COUNTS_BYTES then return end
    local period, end_at, used, before = unpack_(COUNTS, s.value)
    s.settled = end_at > s.end_at
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
    local room, wait = l.most - cost - used, nil
    if room >= 0 then
      wait = s.end_at - left_at(l, s.before, room) - now
    else
      wait = s.end_at + l.second - left_at(l, used, l.most - cost) - now
    end
    return false, max(0, l.most - before - used), wait, ends(l, s)
  end

  local function back(_, s, cost)
    local of_used = min(cost, s.used)
    s.used = s.used - of_used
    s.before = s.before - min(cost - of_used, s.before)
  end

  return {
    read = read, ask = ask, back = back, ends = ends,
    take = function(_, s, cost) s.used = s.used + cost end,
    anew = function(s) s.used, s.before = 0, 0 end,
    write = function(l, s, px) write_text(s, pack(COUNTS, l.second, s.end_at, s.used, s.before), px) end,
  }
end

-- kind_of makes the functions of an arithmetic, or returns them.
local function kind_of(letter)
  local kind = kinds[letter]
  if type(kind) == 'function' then
    kind = kind()
    kinds[letter] = kind
  end
  return kind
end

-- bounds_of reads bounds, one after the other.
local BOUND, BOUND_BYTES = '>c1I8I8I8', 25

local function bounds_of(text)
  local bounds = {}
  for i = 1, #text, BOUND_BYTES do
    local letter, most, second, third = unpack_(BOUND, text, i)
    bounds[#bounds + 1] = { kind = kind_of(letter), texts = letter ~= 'l' and letter ~= 'p', most = most, second = second, third = third }
  end
  return bounds
end

-- read_all reads tallies: those that are texts at once. A key that holds something else counts as none.
local function read_all(tallies)
  local keys, of = {}, {}
  for _, s in ipairs(tallies) do
    if s.l.texts then
      keys[#keys + 1] = s.key
      of[#of + 1] = s
    end
  end
  for i = 1, #keys, 1000 do
    for k, value in ipairs(call('MGET', unpack(keys, i, min(#keys, i + 999)))) do of[i + k - 1].value = value end
  end
  for _, s in ipairs(tallies) do s.l.kind.read(s.l, s) end
end

-- write_all keeps those that changed.
local function write_all(tallies)
  local wrote = false
  for _, s in ipairs(tallies) do
    if s.changed then
      wrote = true
      local left = s.l.kind.ends(s.l, s)
      if left <= 0 then
        call('UNLINK', s.key)
        if s.costs then call('UNLINK', s.costs) end
      else
        left = ceil(left / 1000)
        if ARGV[1] ~= '' then left = left + 3600000 end -- a simulated clock may stand still
        s.l.kind.write(s.l, s, left)
      end
    end
  end
  return wrote
end
