-- The audit log of the partition, as it stands: a stream whose ids are NUMBER-0. The fields of an entry are its text
-- and digest; before and after, '' if there is none; at; and bytes, those of all entries up to it.

local AUDIT = B .. 'J'

-- auditRow reads an entry of the stream.
local function auditRow(entry)
  local row = { id = entry[1], number = tonumber(string.match(entry[1], '^(%d+)-0$')) }
  for i = 1, #entry[2], 2 do row[entry[2][i]] = entry[2][i + 1] end
  row.at, row.bytes = tonumber(row.at), tonumber(row.bytes)
  return row
end

-- auditDropped is how many entries went before their time, for want of room.
local function auditDropped() return tonumber(call('HGET', B, 'auditdropped')) or 0 end

-- auditEnds returns the last number given, and the newest entry and the oldest, nil if there is none. It raises unless
-- another entry can be written behind them; what is not ours further back does not matter.
local function auditEnds()
  if call('EXISTS', AUDIT) == 0 then return 0 end
  local info, is = call('XINFO', 'STREAM', AUDIT), {}
  for i = 1, #info, 2 do is[info[i]] = info[i + 1] end
  local last = tonumber(string.match(is['last-generated-id'], '^(%d+)-0$'))
  local newest = is['last-entry'] and auditRow(is['last-entry'])
  if not last or newest and not (newest.number and newest.bytes and #(newest.digest or '') == 64) then
    raise('WRONGTYPE', AUDIT .. ' ends in an entry that penstock did not write')
  end
  return last, newest, newest and auditRow(is['first-entry'])
end
