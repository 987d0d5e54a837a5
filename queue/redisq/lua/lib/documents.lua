-- needs: shown
--
-- Documents: small texts by KIND:NAME. A kind has no colon.

local DOCUMENTS, REVISIONS, DELETED = B .. 'I', B .. 'Ir', B .. 'Id'
local DOCUMENT, DOCUMENT_BYTES = '>I7I7c16', 30

-- documentOf returns a document: its revision, when it was last written, the stamp of that call, its text, and its
-- showable text. The texts are nil if it was deleted; the result is nil if it never was there, or was deleted long ago.
local function documentOf(key)
  local packed = call('HGET', DOCUMENTS, key)
  if not packed then return nil end
  local rev, at, stamp = unpackStruct(DOCUMENT, packed)
  local text, shown
  if #packed > DOCUMENT_BYTES then text, shown = unpackText(packed, DOCUMENT_BYTES + 1) end
  return { revision = rev, at = at, stamp = stamp, text = text, shown = shown }
end
