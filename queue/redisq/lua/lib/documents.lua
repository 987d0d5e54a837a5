-- needs: shown
--
-- Documents: small texts by kind and name. They go by KIND:NAME, and a kind has no colon.

local DOCUMENTS, REVISIONS, DELETED = B .. 'I', B .. 'Ir', B .. 'Id'
local DOCUMENT, DOCUMENT_BYTES = '>I7I7c16', 30

-- documentOf returns a document, nil if there is none and was none lately: its revision, when it was written last, and
-- the stamp of that call; its text and what may be shown of it, nil if it was deleted.
local function documentOf(key)
  local packed = call('HGET', DOCUMENTS, key)
  if not packed then return nil end
  local rev, at, stamp = unpackStruct(DOCUMENT, packed)
  local text, shown
  if #packed > DOCUMENT_BYTES then text, shown = unpackText(packed, DOCUMENT_BYTES + 1) end
  return { revision = rev, at = at, stamp = stamp, text = text, shown = shown }
end
