#!lua flags=allow-oom
-- needs: versions
--
-- List the versions that are kept of a queue or a rule.
--
-- ARGV[2..3]  kind, name
-- Returns  {1 if it is there or its versions are kept, else 0; the revision of the queue now, or 0; {revision and text
--          of each, the newest first}}

begin()
local kind, name = ARGV[2], ARGV[3]
local nr = kind == 'queue' and numberOf(name)
local q = nr and readQueue(nr)
local rev = q and q.revision or 0
local till = tonumber(call('ZSCORE', B .. 'G', kind .. ':' .. name))
local there = rev > 0 or till and till > wall or kind == 'rule' and call('EXISTS', B .. 'U:' .. name) == 1
if not there then return { 0, 0, {} } end
local out = {}
for _, version in ipairs(call('LRANGE', versionsKey(kind, name), 0, -1)) do
  out[#out + 1] = (unpackStruct('>I7', version))
  out[#out + 1] = keptText(version, 8)
end
return { 1, rev, out }
