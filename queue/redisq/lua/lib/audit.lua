-- needs: bounds, kept, auditlog, sha256
-- gives: writeAudit
--
-- How the audit log is written. Each entry has the digest of the one before it. After a failover that lost some the
-- chain goes on from what the server has.

local PARTITION = string.match(B, '{(%d+)}$')
local OVERHEAD = 200 -- bytes of an entry beside its texts
local DROP_MOST, DROP_BYTES = 400, 1048576 -- in one call

local function textField(name, value)
  if not value or value == '' then return '' end
  return ',"' .. name .. '":' .. cjson.encode(value)
end

local function numberField(name, value)
  if not value or value == 0 then return '' end
  return string.format(',"%s":%.0f', name, value)
end

-- textOf is an entry as JSON: see audit.Entry. No number is written as 1e+15, nor an empty array as an object.
local function textOf(number, previous, e, left_out)
  local actor, ids = string.match(e.by, '^[^\n]*\n[^\n]*\n(.*)$'), {}
  for i, id in ipairs(e.ids or {}) do ids[i] = cjson.encode(id) end
  return string.format('{"partition":%s,"number":%.0f,"at":%.0f,"previous":"%s","actor":', PARTITION, number, e.at,
    previous)
    .. (actor or '{}') .. ',"of":' .. cjson.encode(e.of) .. ',"name":' .. cjson.encode(e.name) .. ',"what":'
    .. cjson.encode(e.what) .. textField('refused', e.refused) .. numberField('times', e.times)
    .. numberField('revision', e.revision) .. numberField('was', e.was) .. textField('detail', e.detail)
    .. textField('reason', e.reason) .. numberField('until', e.till) .. numberField('jobs', e.jobs)
    .. (ids[1] and ',"ids":[' .. table.concat(ids, ',') .. ']' or '')
    .. textField('before', e.before and e.before.digest) .. textField('after', e.after and e.after.digest)
    .. (left_out[1] and ',"left_out":[' .. table.concat(left_out, ',') .. ']' or '') .. '}'
end

-- dropOldAudit drops the oldest entries: those that are too old, and what is more than a partition's share of bytes.
-- bytes are those of all that were ever written. Those that go for their bytes are counted.
local function dropOldAudit(oldest, bytes, newest)
  local share = MAX_AUDIT_BYTES / (tonumber(call('HGET', B, 'partitions')) or 1)
  local old, from, dropped, forced, looked = wall - keptFor(), nil, 0, 0, 0
  local upto = 0 -- the bytes up to the last one dropped
  while oldest and oldest.number ~= newest and dropped < DROP_MOST and looked < DROP_BYTES do
    local over = bytes - upto > share
    -- Of one that somebody broke nothing is known: it goes.
    if oldest.bytes and oldest.at and not over and oldest.at > old then break end
    if oldest.at and oldest.at > old then forced = forced + 1 end
    upto, dropped = oldest.bytes or upto, dropped + 1
    looked = looked + #(oldest.text or '') + #(oldest.before or '') + #(oldest.after or '')
    local following = call('XRANGE', AUDIT, '(' .. oldest.id, '+', 'COUNT', 1)[1]
    oldest = following and auditRow(following)
    from = oldest and oldest.id
  end
  if from then call('XTRIM', AUDIT, 'MINID', '=', from) end
  if forced > 0 then call('HSET', B, 'auditdropped', string.format('%.0f', auditDropped() + forced)) end
end

-- keptText is what is kept of what was before, or after: nothing of what is too long, which is then said to be left
-- out.
local function keptText(e, side, left_out)
  local text = e[side] and e[side].text or ''
  if #text <= MAX_AUDIT_TEXT then return text end
  left_out[#left_out + 1] = '"' .. side .. '"'
  return ''
end

-- writeAudit writes an entry. Its fields are at, by (see actorArg), of, name and what; and those of refused, times,
-- revision, was, detail, reason, till, jobs and ids that there are; and before and after, see shown.lua.
local function writeAudit(e)
  local last, newest, oldest = auditEnds()
  local number, left_out = last + 1, {}
  local before, after = keptText(e, 'before', left_out), keptText(e, 'after', left_out)
  local text = textOf(number, newest and newest.digest or '', e, left_out)
  local bytes = (newest and newest.bytes or 0) + #text + #before + #after + OVERHEAD
  call('XADD', AUDIT, string.format('%.0f-0', number), 'text', text, 'digest', sha256(text), 'before', before, 'after',
    after, 'at', string.format('%.0f', e.at), 'bytes', string.format('%.0f', bytes))
  dropOldAudit(oldest, bytes, number)
end
