-- Shared: the record of what was changed about the queue of a name.

local KEPT, MOST_CHANGES, MOST_BYTES, MOST_DELETED = 30 * 86400 * SECOND, 100, 1048576, 1000
local LAPSED = "the pause's time came"

-- note records a change: at, by, what, revision, the one before, spec before and after or '',
-- reason, until or 0. Each entry begins with the bytes of all that there ever were, up to it.
local function note(name, ...)
  local key = B .. 'H:' .. name
  local function total(at)
    local entry = call('LINDEX', key, at)
    return entry and unpack_('>I7', entry) or 0, entry and #entry or 0
  end
  local entry = cmsgpack.pack({ ... })
  local bytes = total(0) + #entry + 7
  local count = call('LPUSH', key, pack('>I7', bytes) .. entry)
  while count > 1 do
    local oldest, size = total(-1)
    if count <= MOST_CHANGES and bytes - oldest + size <= MOST_BYTES then break end
    call('RPOP', key)
    count = count - 1
  end
end

-- sound_record raises unless the record is what it must be.
local function sound_record(name)
  call('LLEN', B .. 'H:' .. name)
  call('ZCARD', B .. 'G')
end

-- note_lapse records that the pause of a queue has ended, if it has.
local function note_lapse(q)
  if q.lapsed then note(q.name, q.lapsed, '', 'resumed', q.rev, q.rev, '', '', LAPSED, 0) end
end

-- unbury is for a queue that is made: what was kept of one that was deleted goes on, if its time has not come.
local function unbury(name)
  local till = tonumber(call('ZSCORE', B .. 'G', name))
  if not till then return end
  if till <= now then call('UNLINK', B .. 'H:' .. name) else call('PERSIST', B .. 'H:' .. name) end
  call('ZREM', B .. 'G', name)
end

-- bury is for one that is deleted.
local function bury(name)
  local G = B .. 'G'
  call('ZADD', G, now + KEPT, name)
  call('PEXPIRE', B .. 'H:' .. name, KEPT / 1000 + 3600000)
  local over = call('ZCARD', G) - MOST_DELETED
  local gone = call('ZRANGEBYSCORE', G, '-inf', now, 'LIMIT', 0, 100)
  if not gone[1] and over > 0 then gone = call('ZRANGE', G, 0, min(over, 100) - 1) end
  for _, old in ipairs(gone) do call('UNLINK', B .. 'H:' .. old) end
  if gone[1] then call('ZREM', G, unpack(gone)) end
end
