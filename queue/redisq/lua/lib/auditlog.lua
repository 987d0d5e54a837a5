-- The audit log of the partition. Each budget has a stream with ids NUMBER-0; numbers are unique over all budgets. An
-- entry has the fields text and digest; before and after, '' if absent; at; bytes, the sum over all entries of its
-- budget so far; and dropped, how many of these were dropped early for want of room. AUDIT is a sorted set of the
-- budgets by when their oldest entry that may be dropped was written, inf without one.

local AUDIT = B .. 'J'

local function auditKey(budget) return AUDIT .. ':' .. budget end

-- budgetOf returns the budget that pays for an entry: see audit.BudgetOf. by is the actor as actorArg writes it.
local function budgetOf(by, refused)
  local name, actor = string.match(by, '^([^\n]*)\n[^\n]*\n(.*)$')
  local app = actor and cjson.decode(actor).app
  if app then return 'app:' .. app end
  if name and name ~= '' then return 'operators' end
  return refused and refused ~= '' and 'anonymous' or 'nobody'
end

-- auditRow reads an entry of a stream.
local function auditRow(entry)
  local row = { id = entry[1], number = tonumber(string.match(entry[1], '^(%d+)-0$')) }
  for i = 1, #entry[2], 2 do row[entry[2][i]] = entry[2][i + 1] end
  row.at, row.bytes, row.dropped = tonumber(row.at), tonumber(row.bytes), tonumber(row.dropped)
  return row
end

-- auditEnds returns the last numbers given in the partition and in a budget, and the newest and the oldest entry of the
-- budget, nil if it has none. It raises unless another entry can be written behind them. Foreign entries further back
-- do not matter.
local function auditEnds(budget)
  local key, last = auditKey(budget), tonumber(call('HGET', B, 'audited') or 0)
  call('ZCARD', AUDIT)
  if not last then raise('WRONGTYPE', B .. ' has an invalid number of audit entries') end
  if call('EXISTS', key) == 0 then return last, 0 end
  local info, is = call('XINFO', 'STREAM', key), {}
  for i = 1, #info, 2 do is[info[i]] = info[i + 1] end
  local follows = tonumber(string.match(is['last-generated-id'], '^(%d+)-0$'))
  local newest = is['last-entry'] and auditRow(is['last-entry'])
  if not follows or newest and not (newest.number and newest.bytes and newest.dropped and #(newest.digest or '') == 64)
  then
    raise('WRONGTYPE', key .. ' ends in an entry that penstock did not write')
  end
  return max(last, follows), follows, newest, newest and auditRow(is['first-entry'])
end
