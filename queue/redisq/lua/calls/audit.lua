#!lua flags=allow-oom
-- needs: auditlog
--
-- Look at entries of the audit log.
--
-- ARGV[2..4]  number of the first wanted, 0 for the newest or the oldest; '1' if those before it follow, or ''; how
--             many at most
-- Returns  {numbers of the newest and the oldest, digest of the newest, the number to go on with or 0, {text, digest,
--          before, after; of each}, how many were dropped for want of room}

local AT_ONCE, MOST_BYTES = 10, 1048576 -- of texts, and as many more as are read at once

begin()
local _, newest, oldest = auditEnds()
if not newest then return { 0, 0, '', 0, {}, 0 } end
local from, back, left = tonumber(ARGV[2]), ARGV[3] == '1', tonumber(ARGV[4])
local at = from > 0 and ARGV[2] or back and '+' or '-'
local rows, bytes, next_one = {}, 0, 0
repeat
  local wanted = min(left, AT_ONCE)
  local found = call(back and 'XREVRANGE' or 'XRANGE', AUDIT, at, back and '-' or '+', 'COUNT', wanted)
  for _, entry in ipairs(found) do
    local row = auditRow(entry)
    for _, field in ipairs({ 'text', 'digest', 'before', 'after' }) do
      rows[#rows + 1] = row[field] or ''
      bytes = bytes + #rows[#rows]
    end
    at = '(' .. entry[1]
    next_one = tonumber(string.match(entry[1], '^%d+')) + (back and -1 or 1)
  end
  left = left - #found
  if left == 0 or #found < wanted then next_one = 0 end
until next_one == 0 or bytes > MOST_BYTES
return { newest.number, oldest.number or 0, newest.digest, next_one, rows, auditDropped() }
