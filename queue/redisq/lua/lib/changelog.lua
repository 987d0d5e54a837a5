-- needs: kept, auditlog, versions
-- for auditwrite: auditwrite
-- gives: logPauseEnd
--
-- The change log: what was done to a queue or a rule. Entries go by kind ('queue' or 'rule') and name. What is written
-- here is written to the audit log, too.
--
-- An entry has the bytes of all entries up to it, its number, how many were dropped before it for want of room, and
-- when it was last added to. Packed behind these are: at, by (see who), what, revision, the revision before, detail,
-- reason, until or 0, number of jobs, and some of their ids. Only the newest entry is ever changed: a change of jobs
-- over several calls is one entry here, but one for each call in the audit log.

local MOST_BYTES, MOST_DELETED = 1048576, 10000
local ONE_CHANGE, MOST_IDS, DROP_CHANGES = 60 * SECOND, 10, 100
local ENTRY, ENTRY_BYTES = '>I7I7I7I7', 28
local BY, WHAT, REVISION, DETAIL, REASON, JOBS, IDS = 2, 3, 4, 6, 7, 9, 10 -- in the packed part of an entry
local LAPSED = "the pause's time came"

local function logKey(kind, name) return B .. 'H:' .. kind .. ':' .. name end

-- who returns the part of an actor that the change log keeps: name and note, a line each. by has these two lines and
-- then the whole actor as JSON; '' is no actor.
local function who(by) return by:match('^[^\n]*\n[^\n]*') or '' end

-- extendLast adds a change of jobs to the newest entry if that has the same cause, and reports whether it did. It does
-- not add to an entry that it cannot read.
local function extendLast(key, head, doer, what, rev, detail, reason, jobs, ids)
  local bytes, number, dropped, last = unpackStruct(ENTRY, head)
  if wall - last >= ONE_CHANGE then return false end
  local ok, c = pcall(cmsgpack.unpack, sub(head, ENTRY_BYTES + 1))
  if not ok or type(c) ~= 'table' or type(c[JOBS]) ~= 'number' or type(c[IDS]) ~= 'table' then return false end
  if c[BY] ~= doer or c[WHAT] ~= what or c[REVISION] ~= rev or c[DETAIL] ~= detail or c[REASON] ~= reason then
    return false
  end
  c[JOBS] = c[JOBS] + jobs
  for i = 1, min(#ids, MOST_IDS - #c[IDS]) do table.insert(c[IDS], ids[i]) end
  local text = cmsgpack.pack(c)
  call('LSET', key, 0, pack(ENTRY, bytes - #head + ENTRY_BYTES + #text, number, dropped, wall) .. text)
  return true
end

-- shownAround returns the showable text of a queue or rule before a change and after. A text is nil if there was no
-- queue or rule, or the change is of something else.
local function shownAround(kind, name, what, rev, was)
  if what ~= 'created' and what ~= 'changed' and what ~= 'rolled_back' and what ~= 'deleted' then return end
  local shown = {}
  for _, version in ipairs(call('LRANGE', versionsKey(kind, name), 0, 1)) do
    local _
    _, shown[unpackStruct('>I7', version)] = unpackText(version, 8)
  end
  return shown[was], what ~= 'deleted' and shown[rev] or nil
end

-- writeChange writes an entry of the change log with these ids.
local function writeChange(kind, name, at, by, what, rev, was, detail, reason, till, jobs, ids)
  local key = logKey(kind, name)
  local head = call('LINDEX', key, 0)
  local bytes, number, dropped = 0, 0, 0
  if head then bytes, number, dropped = unpackStruct(ENTRY, head) end
  local doer = who(by)
  if head and ids and extendLast(key, head, doer, what, rev, detail, reason, jobs, ids) then return end
  local text = cmsgpack.pack({ at, doer, what, rev, was, detail, reason, till, jobs or 0, ids or {} })
  bytes = bytes + ENTRY_BYTES + #text
  local old, gone = wall - keptFor(), 0
  while head do
    local oldest = call('LINDEX', key, -1)
    if not oldest then break end
    local upto, _, last = 0, 0, 0 -- an entry that cannot be read is dropped
    if #oldest >= ENTRY_BYTES then upto, _, _, last = unpackStruct(ENTRY, oldest) end
    local over = bytes - (upto - #oldest) > MOST_BYTES
    if not over and (last > old or gone == DROP_CHANGES) then break end
    if last > old then dropped = dropped + 1 end
    call('RPOP', key)
    gone = gone + 1
  end
  call('LPUSH', key, pack(ENTRY, bytes, number + 1, dropped, at) .. text)
end

-- logChange writes an entry to both logs. An entry about jobs has their number, and some of their ids. A new version is
-- kept before this call.
local function logChange(kind, name, at, by, what, rev, was, detail, reason, till, jobs, ids)
  local some
  if ids then some = { unpack(ids, 1, min(#ids, MOST_IDS)) } end
  local before, after = shownAround(kind, name, what, rev, was)
  writeAudit({ at = wall, by = by, of = kind, name = name, what = what, revision = rev, was = was, detail = detail,
    reason = reason, till = till, jobs = jobs, ids = some, before = before, after = after })
  writeChange(kind, name, at, by, what, rev, was, detail, reason, till, jobs, some)
end

-- logJobAct logs what was done to some jobs of a queue, if there are any. ids are the ids that the caller named.
local function logJobAct(q, by, what, detail, reason, jobs, ids)
  if jobs > 0 then
    logChange('queue', q.name, wall, by, what, q.revision or 0, q.revision or 0, detail, reason, 0, jobs, ids or {})
  end
end

-- checkLogKeys raises unless the change log and the versions can be read and written.
local function checkLogKeys(kind, name)
  if call('EXISTS', logKey(kind, name), versionsKey(kind, name)) == 0 then return end
  for index = -1, 0 do
    local entry = call('LINDEX', logKey(kind, name), index)
    if entry then unpackStruct(ENTRY, entry) end
  end
  for _, version in ipairs(call('LRANGE', versionsKey(kind, name), 0, 1)) do unpackText(version, 8) end
end

-- checkAuditKeys raises unless the audit log can be read and written, including an entry of a pause that has ended.
local function checkAuditKeys(by)
  call('ZCARD', B .. 'G')
  auditEnds(budgetOf(by))
  auditEnds(budgetOf(''))
end

-- checkChangeKeys raises unless both logs can be read and written. It is called before anything is written.
local function checkChangeKeys(kind, name, by)
  checkLogKeys(kind, name)
  checkAuditKeys(by)
end

-- logPauseEnd logs that the pause of a queue ended by itself. The entry has no actor. It goes to the change log only:
-- drainers notice the end, and may not write the audit log, where the entry of the pause has the end already.
local function logPauseEnd(q)
  if not q.pauseEndedAt then return end
  writeChange('queue', q.name, q.pauseEndedAt, '', 'resumed', q.revision, q.revision, '', LAPSED, 0)
end

-- markDeleted is called when a queue or rule is deleted. Its log is kept for as long as changes are.
local function markDeleted(kind, name)
  local G, kept = B .. 'G', keptFor()
  call('ZADD', G, wall + kept, kind .. ':' .. name)
  for _, key in ipairs({ logKey(kind, name), versionsKey(kind, name) }) do
    call('PEXPIRE', key, ceil(kept / 1000) + 3600000)
  end
  local gone = call('ZRANGEBYSCORE', G, '-inf', wall, 'LIMIT', 0, 10)
  if not gone[1] and call('ZCARD', G) > MOST_DELETED then gone = call('ZRANGE', G, 0, 1) end
  for _, old in ipairs(gone) do call('UNLINK', B .. 'H:' .. old, B .. 'P:' .. old) end
  if gone[1] then call('ZREM', G, unpack(gone)) end
end

-- unmarkDeleted is called when queues or a rule are made. The log of a deleted one of the same name continues if it is
-- still kept.
local function unmarkDeleted(kind, names)
  local members = {}
  for i, name in ipairs(names) do members[i] = kind .. ':' .. name end
  for i, till in ipairs(call('ZMSCORE', B .. 'G', unpack(members))) do
    if till then
      for _, key in ipairs({ logKey(kind, names[i]), versionsKey(kind, names[i]) }) do
        if tonumber(till) <= wall then call('UNLINK', key) else call('PERSIST', key) end
      end
      call('ZREM', B .. 'G', members[i])
    end
  end
end
