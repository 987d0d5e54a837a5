#!lua flags=allow-oom
-- needs: changelog
--
-- List changes of a queue or a rule.
--
-- ARGV[2..5]  kind, name, number below which to list ('' is all), limit
-- Returns  {1 if it is there or its log is kept, else 0; number of changes dropped early; {the changes, newest first:
--          {number, when it was last added to, and the values of an entry, see changelog.lua}}}

begin()
local kind, name, before, most = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local q
if kind == 'queue' then
  local nr = numberOf(name)
  q = nr and load(nr)
end
local till = tonumber(call('ZSCORE', B .. 'G', kind .. ':' .. name))
local there = q or till and till > wall or kind == 'rule' and call('EXISTS', B .. 'U:' .. name) == 1
if not there then return { 0, 0, {} } end
local key, out = logKey(kind, name), {}
local head = call('LINDEX', key, 0)
local number, dropped = 0, 0
if head then
  local _, n, d = unpackStruct(ENTRY, head)
  number, dropped = n, d
end
-- A pause that ended by itself is recorded with the next change. Until then its end is added here.
if q and q.pauseEndedAt and not before then
  out[1] = { number + 1, q.pauseEndedAt, q.pauseEndedAt, '', 'resumed', q.revision, q.revision, '', LAPSED, 0, 0, {} }
end
local from, old = before and max(0, number - before + 1) or 0, wall - keptFor()
for _, entry in ipairs(call('LRANGE', key, from, from + most - #out - 1)) do
  local _, n, _, last = unpackStruct(ENTRY, entry)
  if last <= old then break end
  local row = cmsgpack.unpack(sub(entry, ENTRY_BYTES + 1))
  table.insert(row, 1, last)
  table.insert(row, 1, n)
  out[#out + 1] = row
end
return { 1, dropped, out }
