-- needs: shown
--
-- The versions that there were of a queue or a rule, the newest first: its revision, and what it was from that on,
-- packed (see shown.lua). The newest of a queue is its spec, which stands nowhere else: a field as long would make an
-- idle queue's hash take five times the memory, as Redis keeps it compact only while all of its values are short.

local MOST_VERSIONS = 50

local function versions_key(kind, name) return B .. 'P:' .. kind .. ':' .. name end

-- spec_of returns the spec of a queue, or '' if somebody removed it.
local function spec_of(name)
  local newest = call('LINDEX', versions_key('queue', name), 0)
  return newest and kept_text(newest, 8) or ''
end

-- keep_version keeps what a queue or rule is from this revision on, packed. Only the last are kept.
local function keep_version(kind, name, rev, packed)
  local key = versions_key(kind, name)
  call('LPUSH', key, pack('>I7', rev) .. packed)
  call('LTRIM', key, 0, MOST_VERSIONS - 1)
end

-- keep_version_again keeps the newest version under another revision.
local function keep_version_again(kind, name, rev)
  local newest = call('LINDEX', versions_key(kind, name), 0)
  if newest then keep_version(kind, name, rev, sub(newest, 8)) end
end
