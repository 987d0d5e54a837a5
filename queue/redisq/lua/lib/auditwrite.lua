-- needs: bounds, auditbudgets, kept, auditlog, sha256
-- gives: writeAudit
--
-- Writes the audit log. Each entry has the digest of the entry before it in its budget. After a failover that lost some
-- entries the chain continues from what the server has.

local PARTITION = string.match(B, '{(%d+)}$')
local OVERHEAD = 200 -- bytes of an entry besides its texts
local DROP_MOST, DROP_BYTES = 400, 1048576 -- in one call

local function textField(name, value)
  if not value or value == '' then return '' end
  return ',"' .. name .. '":' .. cjson.encode(value)
end

local function numberField(name, value)
  if not value or value == 0 then return '' end
  return string.format(',"%s":%.0f', name, value)
end

-- isWhole reports whether a character of a text begins at a byte, or the text ends before it.
local function isWhole(text, at)
  local byte = string.byte(text, at)
  return not byte or byte < 0x80 or byte > 0xbf
end

-- wholeUpTo returns how many of the first n bytes are whole characters.
local function wholeUpTo(text, n)
  n = min(n, #text)
  while n > 0 and not isWhole(text, n + 1) do n = n - 1 end
  return n
end

-- longest returns the largest n up to most for which like(n) holds; like must hold up to that n and not beyond.
local function longest(most, like)
  local n = 0
  while n < most do
    local middle = ceil((n + most) / 2)
    if like(middle) then n = middle else most = middle - 1 end
  end
  return n
end

-- diffOf returns where two texts differ, as JSON: see audit.DiffOf.
local function diffOf(before, after)
  local most = min(#before, #after)
  local at = wholeUpTo(before, longest(most, function(n) return sub(before, 1, n) == sub(after, 1, n) end))
  local same = longest(most - at, function(n) return sub(before, -n) == sub(after, -n) end)
  while same > 0 and not isWhole(before, #before - same + 1) do same = same - 1 end
  before, after = sub(before, at + 1, #before - same), sub(after, at + 1, #after - same)
  return string.format('{"at":%.0f', at) .. textField('before', sub(before, 1, wholeUpTo(before, MAX_AUDIT_DIFF)))
    .. textField('after', sub(after, 1, wholeUpTo(after, MAX_AUDIT_DIFF)))
    .. string.format(',"before_bytes":%.0f,"after_bytes":%.0f}', #before, #after)
end

-- textOf returns an entry as JSON: see audit.Entry. It writes no number as 1e+15, nor an empty array as an object.
local function textOf(number, budget, follows, previous, e, leftOut)
  local actor, ids = string.match(e.by, '^[^\n]*\n[^\n]*\n(.*)$'), {}
  for i, id in ipairs(e.ids or {}) do ids[i] = cjson.encode(id) end
  return string.format('{"partition":%s,"number":%.0f', PARTITION, number) .. textField('budget', budget)
    .. numberField('follows', follows) .. string.format(',"at":%.0f,"previous":"%s","actor":', e.at, previous)
    .. (actor or '{}') .. ',"of":' .. cjson.encode(e.of) .. ',"name":' .. cjson.encode(e.name) .. ',"what":'
    .. cjson.encode(e.what) .. textField('refused', e.refused) .. numberField('times', e.times)
    .. numberField('revision', e.revision) .. numberField('was', e.was) .. textField('detail', e.detail)
    .. textField('reason', e.reason) .. numberField('until', e.till) .. numberField('jobs', e.jobs)
    .. (ids[1] and ',"ids":[' .. table.concat(ids, ',') .. ']' or '')
    .. textField('before', e.before and e.before.digest) .. textField('after', (e.list or e.after or {}).digest)
    .. (leftOut[1] and ',"left_out":[' .. table.concat(leftOut, ',') .. '],"diff":'
      .. diffOf(e.before and e.before.text or '', e.after and e.after.text or '') or '') .. '}'
end

-- shareOf returns about how many bytes of a budget the partition keeps.
local function shareOf(budget) return budgetBytes(budget) / (tonumber(call('HGET', B, 'partitions')) or 1) end

-- dropOldAudit drops the oldest entries of a budget that are too old or beyond its share of bytes, up to an entry that
-- stays, by its number. spent is the bytes of all entries ever written. It returns the oldest entry that stays, and how
-- many were dropped for their bytes.
local function dropOldAudit(budget, oldest, spent, upto)
  local key, share, old = auditKey(budget), shareOf(budget), wall - keptFor()
  local dropped, forced, looked, gone = 0, 0, 0, false
  while oldest and oldest.number ~= upto and dropped < DROP_MOST and looked < DROP_BYTES do
    local size = #(oldest.text or '') + #(oldest.before or '') + #(oldest.after or '') + OVERHEAD
    -- An entry that cannot be read is dropped.
    if oldest.bytes and oldest.at and oldest.at > old then
      if spent - (oldest.bytes - size) <= share then break end -- with this one
      forced = forced + 1
    end
    dropped, looked, gone = dropped + 1, looked + size, true
    local following = call('XRANGE', key, '(' .. oldest.id, '+', 'COUNT', 1)[1]
    oldest = following and auditRow(following)
  end
  if gone and oldest then call('XTRIM', key, 'MINID', '=', oldest.id) end
  if gone and not oldest then call('XTRIM', key, 'MAXLEN', '=', 0) end
  return oldest, forced
end

-- noteOldest notes when the oldest entry that may be dropped was written. The newest is never dropped.
local function noteOldest(budget, oldest, newest)
  local goes = oldest and oldest.number ~= newest and string.format('%.0f', oldest.at or 0)
  call('ZADD', AUDIT, goes or '+inf', budget)
end

-- dropAged drops entries that are too old, of one budget that has some.
local function dropAged()
  local budget = call('ZRANGEBYSCORE', AUDIT, '-inf', wall - keptFor(), 'LIMIT', 0, 1)[1]
  if not budget then return end
  local known, _, _, newest, oldest = pcall(auditEnds, budget)
  if not known or not newest then return noteOldest(budget) end
  noteOldest(budget, dropOldAudit(budget, oldest, newest.bytes, newest.number), newest.number)
end

-- keptText returns the text before or after a change that the entry keeps. A text that is too long is left out, and
-- noted as left out.
local function keptText(e, side, leftOut)
  local text = e[side] and e[side].text or ''
  if #text <= MAX_AUDIT_TEXT then return text end
  leftOut[#leftOut + 1] = '"' .. side .. '"'
  return ''
end

-- writeAudit writes an entry. Its fields are at, by (see actorArg), of, name and what. Optional are refused, times,
-- revision, was, detail, reason, till, jobs and ids; and before and after, see shown.lua. An entry about many queues
-- has a list of them in place of after, which is never left out.
local function writeAudit(e)
  local budget = budgetOf(e.by, e.refused)
  local last, follows, newest, oldest = auditEnds(budget)
  local number, leftOut = last + 1, {}
  local before = keptText(e, 'before', leftOut)
  local after = e.list and e.list.text or keptText(e, 'after', leftOut)
  local text = textOf(number, budget, follows, newest and newest.digest or '', e, leftOut)
  local spent = (newest and newest.bytes or 0) + #text + #before + #after + OVERHEAD
  local forced
  oldest, forced = dropOldAudit(budget, oldest, spent)
  call('XADD', auditKey(budget), string.format('%.0f-0', number), 'text', text, 'digest', sha256(text),
    'before', before, 'after', after, 'at', string.format('%.0f', e.at), 'bytes', string.format('%.0f', spent),
    'dropped', string.format('%.0f', (newest and newest.dropped or 0) + forced))
  call('HSET', B, 'audited', string.format('%.0f', number))
  noteOldest(budget, oldest)
  dropAged()
end
