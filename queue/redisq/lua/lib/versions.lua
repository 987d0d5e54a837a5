-- needs: shown
--
-- The versions of a queue or a rule, the newest first: revision and packed text (see shown.lua). The newest version of
-- a queue is its spec, which is stored nowhere else. A field of that length would make an idle queue's hash take five
-- times the memory, as Redis keeps it compact only while all of its values are short.

local MOST_VERSIONS = 50

local function versionsKey(kind, name) return B .. 'P:' .. kind .. ':' .. name end

-- specOf returns the spec of a queue and its revision, or '' if another program removed them.
local function specOf(name)
  local newest = call('LINDEX', versionsKey('queue', name), 0)
  if not newest then return '' end
  return keptText(newest, 8), (unpackStruct('>I7', newest))
end

-- keepVersion keeps the packed text of a queue or rule as of a revision. Only the last versions are kept.
local function keepVersion(kind, name, rev, packed)
  local key = versionsKey(kind, name)
  local count = call('LPUSH', key, pack('>I7', rev) .. packed)
  if count > MOST_VERSIONS then call('LTRIM', key, 0, MOST_VERSIONS - 1) end
end

-- keepVersionAgain keeps the newest version under another revision.
local function keepVersionAgain(kind, name, rev)
  local newest = call('LINDEX', versionsKey(kind, name), 0)
  if newest then keepVersion(kind, name, rev, sub(newest, 8)) end
end
