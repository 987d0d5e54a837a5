#!lua flags=allow-oom
-- for batches: batches
--
-- List batches of a queue.
--
-- ARGV[2..5]  queue name, the only label or '', label of the last batch of the page before or '', limit
-- Returns  0 no such queue; or {skew (see clock.lua), batches}; for each: label, accepted, delivered, dead, cancelled,
--          expired, missing, first and last append, end or 0, 1 if lanes were left out, ids of the last jobs

begin()
local nr = numberOf(ARGV[2])
local q = nr and load(nr)
if not q then return 0 end
withBatches(q)
local only, after, most = ARGV[3], ARGV[4], tonumber(ARGV[5])

-- less orders labels by their bytes; the operator would order them by the server's locale.
local function less(a, b)
  for i = 1, min(#a, #b) do
    local x, y = byte(a, i, i), byte(b, i, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local labels, rows = only ~= '' and { only } or call('HKEYS', B .. 'Q' .. nr), {}
table.sort(labels, less)
for _, label in ipairs(labels) do
  local b = #rows < 12 * most and less(after, label) and batches.batchOf(q, label)
  if b then
    local ids, n = {}, #rows
    for i, l in ipairs(b.lasts) do ids[i] = l[2] end
    for i, v in ipairs({ label, b.accepted, b.delivered, b.dead, b.cancelled, b.expired, b.missing, b.first, b.last,
      b.ended, b.moreLanes, ids }) do rows[n + i] = v end
  end
end
finish()
return { skew, rows }
