-- How the text of a queue, a rule or a document is kept: 32 bytes of digest of its showable text, in which secrets are
-- masked; that text behind its length, if it differs; and the text itself.

-- packText packs a text. shown is '' if it may be shown as it is.
local function packText(digest, shown, text) return digest .. pack('>I4', #shown) .. shown .. text end

-- keptText returns the text that begins at a byte.
local function keptText(packed, at) return sub(packed, at + 36 + unpackStruct('>I4', packed, at + 32)) end

-- unpackText returns the text that begins at a byte, and its showable text for the audit log: digest and text.
local function unpackText(packed, at)
  local words, length = { unpackStruct('>I4I4I4I4I4I4I4I4', packed, at) }, unpackStruct('>I4', packed, at + 32)
  for i = 1, 8 do words[i] = bit.tohex(words[i]) end
  local text, shown = keptText(packed, at), sub(packed, at + 36, at + 35 + length)
  return text, { digest = table.concat(words, '', 1, 8), text = length > 0 and shown or text }
end
