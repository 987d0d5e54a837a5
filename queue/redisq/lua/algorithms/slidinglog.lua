-- leaky/slidinglog.go, behind tally.lua.
--
-- One text: HEAD, then a ring of ENTRY, with zero bytes in free places. An entry is an instant, and the cost of all
-- entries up to this one, modulo 2^32: so the cost in a window, and where a cost ends, is found without adding up. The
-- head has the last entry; base is the cost up to the entries that are over. The ring has size places, the used ones
-- from first on. It doubles and halves in size, so that an entry moves only a few times. Otherwise a call reads and
-- writes a few entries, found by binary search.
local HEAD, HEAD_BYTES, ENTRY, ENTRY_BYTES, LAP = '>I2I2I2I4I7I4', 21, '>I7I4', 11, 2 ^ 32

local function entry(s, i)
  local at = HEAD_BYTES + (s.first + i) % s.size * ENTRY_BYTES
  local text = s.text and sub(s.text, at - HEAD_BYTES + 1, at - HEAD_BYTES + ENTRY_BYTES)
    or call('GETRANGE', s.key, at, at + ENTRY_BYTES - 1)
  if #text < ENTRY_BYTES then return 0, s.base end -- only another program makes it so short
  return unpackStruct(ENTRY, text)
end

local function upTo(s, cum) return (cum - s.base) % LAP end

-- search returns the index of the first entry in the ring that passes, or the number of entries. It tries the near ones
-- first.
local function search(s, passes)
  local low, high, step = 0, 0, 1
  while high < s.ring and not passes(entry(s, high)) do
    low, high, step = high + 1, high + step, step * 2
  end
  high = min(high, s.ring)
  while low < high do
    local middle = floor((low + high) / 2)
    if passes(entry(s, middle)) then high = middle else low = middle + 1 end
  end
  return low
end

local function anew(s)
  s.size, s.first, s.ring, s.base, s.at, s.cum, s.sum, s.none, s.text = 0, 0, 0, 0, 0, 0, 0, true, nil
  return s
end

local function read(l, key)
  local s = anew({ l = l, key = key })
  local head = redis.pcall('GETRANGE', s.key, 0, HEAD_BYTES - 1)
  if type(head) ~= 'string' or #head ~= HEAD_BYTES then return s end
  local size, first, ring, base, at, cum = unpackStruct(HEAD, head)
  if at <= now - l.second or size > 2 * MAX_ENTRIES or ring > size then return s end
  s.size, s.first, s.ring, s.base, s.at, s.cum, s.none = size, first, ring, base, at, cum, false
  if at > now then -- a clock that was set back leaves it little ahead, only another program more
    s.at, s.settled = now, true
    if at > now + SECOND then s.ring = 0 end
  end
  if s.ring > 0 then
    local over = search(s, function(of) return of > now - l.second end)
    if over > 0 then
      local _, gone = entry(s, over - 1)
      s.base, s.first, s.ring = gone, (s.first + over) % s.size, s.ring - over
    end
  end
  s.sum = upTo(s, s.cum)
  return s
end

local function ends(s) return s.none and 0 or max(0, s.at + s.l.second - now) end

local function rest(l, key)
  local head = redis.pcall('GETRANGE', key, 0, HEAD_BYTES - 1)
  if type(head) ~= 'string' or #head ~= HEAD_BYTES then return 0 end
  local _, _, _, _, at = unpackStruct(HEAD, head)
  return max(0, min(at, now) + l.second - now)
end

local function ask(l, s, cost)
  local over = s.sum + cost - l.most
  if over <= 0 then return true, -over, 0, l.second, s end
  local at = s.at
  if s.ring > 0 then
    local i = search(s, function(_, cum) return upTo(s, cum) >= over end)
    if i < s.ring then at = min(now, (entry(s, i))) end
  end
  return false, max(0, l.most - s.sum), at + l.second - now, ends(s), s.settled and s
end

-- resize gives the ring another size; its entries then begin at 0.
local function resize(s, size)
  local text = ''
  if s.ring > 0 then
    text = call('GETRANGE', s.key, HEAD_BYTES, -1)
    local from = s.first * ENTRY_BYTES
    text = sub(sub(text, from + 1) .. sub(text, 1, from), 1, s.ring * ENTRY_BYTES)
  end
  s.size, s.first, s.text = size, 0, text .. string.rep('\0', (size - s.ring) * ENTRY_BYTES)
end

local function putBy(s)
  if s.ring == s.size then resize(s, max(1, 2 * s.size)) end
  local last, at = pack(ENTRY, s.at, s.cum), (s.first + s.ring) % s.size * ENTRY_BYTES
  if s.text then
    s.text = sub(s.text, 1, at) .. last .. sub(s.text, at + ENTRY_BYTES + 1)
  else
    call('SETRANGE', s.key, HEAD_BYTES + at, last)
  end
  s.ring = s.ring + 1
end

local function headOf(s) return pack(HEAD, s.size, s.first, s.ring, s.base, s.at, s.cum) end

local function write(s)
  local left = ends(s)
  if left == 0 then return call('UNLINK', s.key) end
  if not s.text and s.size > 4 and s.ring * 4 < s.size then resize(s, floor(s.size / 2)) end
  if s.text then return call('SET', s.key, headOf(s) .. s.text, 'PX', lasting(left)) end
  call('SETRANGE', s.key, 0, headOf(s))
  call('PEXPIRE', s.key, lasting(left))
end

local function take(l, s, cost)
  if s.none then
    s.none, s.text = false, ''
  elseif s.at < now - now % l.third and s.ring + 1 < MAX_ENTRIES then
    putBy(s)
  end
  s.at, s.cum, s.sum = now, (s.cum + cost) % LAP, s.sum + cost
end

local function back(_, s, cost)
  local rest = s.sum - min(cost, s.sum)
  if rest == 0 then return anew(s), 0 end
  local i = search(s, function(_, cum) return upTo(s, cum) >= rest end)
  if i < s.ring then
    s.at = entry(s, i)
    s.ring = i
  end
  s.sum, s.cum = rest, (s.base + rest) % LAP
  return s, ends(s)
end
