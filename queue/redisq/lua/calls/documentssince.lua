#!lua flags=allow-oom
-- needs: bounds, documents, run
--
-- Read the documents that were written after a revision.
--
-- ARGV[2..3]  revision, limit
-- Returns  {the run of the server, '1' if others follow or '', the revision to continue with, {KIND:NAME, revision,
--          when it was last written, text or '' if it was deleted; for each}}

local MOST_BYTES = 1048576 -- of texts, unless it is one text

begin()
local limit, rows, bytes, behind = tonumber(ARGV[3]), {}, 0, ARGV[2]
local found = call('ZRANGEBYSCORE', REVISIONS, '(' .. behind, '+inf', 'LIMIT', 0, limit + 1)
local at = 0
while at < min(limit, #found) and bytes < MOST_BYTES do
  at = at + 1
  local d = documentOf(found[at])
  if not d then raise('WRONGTYPE', DOCUMENTS .. ' lacks what ' .. REVISIONS .. ' has') end
  behind = string.format('%.0f', d.revision)
  if d.text or d.at > wall - KEEP_DELETED_DOCUMENTS then
    rows[#rows + 1], rows[#rows + 2], rows[#rows + 3], rows[#rows + 4] = found[at], d.revision, d.at, d.text or ''
    bytes = bytes + #(d.text or '')
  end
end
return { runId(), at < #found and '1' or '', behind, rows }
