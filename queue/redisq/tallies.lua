-- Shared, behind tally.lua: many tallies at once. A bound has its arithmetic in kind.

-- bounds_of reads bounds, one after the other.
local function bounds_of(text)
  local bounds = {}
  for at = 1, #text, BOUND_BYTES do
    local l = bound_at(text, at)
    l.kind = by_letter[l.letter]
    bounds[#bounds + 1] = l
  end
  return bounds
end

-- read_all reads tallies.
local function read_all(tallies)
  local keys, of = {}, {}
  for _, s in ipairs(tallies) do
    if s.l.letter ~= 'l' and s.l.letter ~= 'p' then keys[#keys + 1], of[#of + 1] = s.key, s else s.l.kind.read(s.l, s) end
  end
  for i = 1, #keys, 1000 do
    for k, value in ipairs(call('MGET', B .. '!', unpack(keys, i, min(#keys, i + 999)))) do
      if k > 1 then of[i + k - 2].l.kind.read(of[i + k - 2].l, of[i + k - 2], value) end
    end
  end
end

-- write_all keeps those that changed.
local function write_all(tallies)
  local wrote = false
  for _, s in ipairs(tallies) do
    if s.changed then
      wrote = true
      keep(s.l.kind.write, s, s.l.kind.ends(s.l, s))
    end
  end
  return wrote
end
