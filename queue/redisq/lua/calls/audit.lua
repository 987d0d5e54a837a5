#!lua flags=allow-oom
-- needs: auditlog
--
-- Read entries of the audit log.
--
-- ARGV[2..4]  number of the first entry, 0 for the newest or the oldest; '1' for descending order, or ''; limit
-- Returns  {numbers of the newest and the oldest entry, the number to continue with or 0, {text, digest, before, after;
--          for each entry}, {budget, numbers of its newest and its oldest, digest of its newest, how many of its
--          entries were dropped for want of room; for each budget}}

local AT_ONCE, MOST_BYTES = 10, 1048576 -- of texts; a call may exceed it by AT_ONCE entries

begin()
local back, left = ARGV[3] == '1', tonumber(ARGV[4])
local from = tonumber(ARGV[2]) > 0 and ARGV[2] or back and '+' or '-'

-- readOn reads the next entries of a budget.
local function readOn(chain, at, many)
  local found = call(back and 'XREVRANGE' or 'XRANGE', chain.key, at, back and '-' or '+', 'COUNT', many)
  chain.rows, chain.next, chain.over = {}, 1, #found < many
  for i, entry in ipairs(found) do chain.rows[i] = auditRow(entry) end
end

local budgets, chains, newestNumber, oldestNumber = call('ZRANGE', AUDIT, 0, -1), {}, 0, nil
table.sort(budgets)
local ends = {}
for _, budget in ipairs(budgets) do
  local _, _, newest, oldest = auditEnds(budget)
  if newest then
    local chain = { key = auditKey(budget) }
    readOn(chain, from, 1)
    chains[#chains + 1] = chain
    newestNumber = max(newestNumber, newest.number)
    oldestNumber = min(oldestNumber or newest.number, oldest.number or 0)
    for _, field in ipairs({ budget, newest.number, oldest.number or 0, newest.digest, newest.dropped }) do
      ends[#ends + 1] = field
    end
  end
end

-- following returns the chain whose entry is next, nil at the end.
local function following()
  local first
  for _, chain in ipairs(chains) do
    local row = chain.rows[chain.next]
    if not row and not chain.over then
      readOn(chain, '(' .. chain.last, AT_ONCE)
      row = chain.rows[1]
    end
    if row and (not first or (row.number or 0) < (first.rows[first.next].number or 0) ~= back) then first = chain end
  end
  return first
end

local rows, bytes, nextOne = {}, 0, 0
repeat
  local chain = following()
  if not chain then
    nextOne = 0
    break
  end
  local row = chain.rows[chain.next]
  for _, field in ipairs({ 'text', 'digest', 'before', 'after' }) do
    rows[#rows + 1] = row[field] or ''
    bytes = bytes + #rows[#rows]
  end
  chain.next, chain.last = chain.next + 1, row.id
  nextOne = tonumber(string.match(row.id, '^%d+')) + (back and -1 or 1)
  left = left - 1
until left == 0 or bytes > MOST_BYTES
if left == 0 then nextOne = 0 end
return { newestNumber, oldestNumber or 0, nextOne, rows, ends }
