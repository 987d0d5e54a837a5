#!lua flags=allow-oom
-- needs: bounds, revision, documents, auditlog
-- for auditwrite: auditwrite
--
-- Write or delete a document.
--
-- ARGV[2..8]  KIND:NAME; text, '' to delete it; expected revision (0: must not exist, -1: any); stamp of this call;
--             digest of the showable text, and that text unless it is the same; actor
-- Returns  {code, revision}: 0 done; 1 it is at another revision; 2 it does not exist

local SWEEP_MOST = 20

begin()
local key, text, expect, stamp = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local before = documentOf(key)
-- This very call, repeated after a lost reply.
if before and before.stamp == stamp then return { 0, before.revision } end
local was = before and before.text and before.revision or 0
if text == '' and was == 0 then return { 2, 0 } end
if expect >= 0 and expect ~= was then return { 1, was } end
if was > 0 and before.text == text then return { 0, was } end
call('ZCARD', REVISIONS)
call('ZCARD', DELETED)
auditEnds(budgetOf(ARGV[8]))

local rev, after, _ = nextRevision(), nil, nil
local packed = pack(DOCUMENT, rev, wall, stamp)
if text == '' then
  call('ZADD', DELETED, wall, key)
else
  packed = packed .. packText(ARGV[6], ARGV[7], text)
  _, after = unpackText(packed, DOCUMENT_BYTES + 1)
  call('ZREM', DELETED, key)
end
call('HSET', DOCUMENTS, key, packed)
call('ZADD', REVISIONS, rev, key)
local kind, name = string.match(key, '^([^:]*):(.*)$')
writeAudit({ at = wall, by = ARGV[8], of = kind, name = name, revision = rev, was = was,
  what = text == '' and 'deleted' or was == 0 and 'created' or 'changed', before = was > 0 and before.shown or nil,
  after = after })
local gone = call('ZRANGEBYSCORE', DELETED, '-inf', wall - KEEP_DELETED_DOCUMENTS, 'LIMIT', 0, SWEEP_MOST)
if gone[1] then
  call('HDEL', DOCUMENTS, unpack(gone))
  call('ZREM', REVISIONS, unpack(gone))
  call('ZREM', DELETED, unpack(gone))
end
finish()
return { 0, rev }
