-- needs: departures
-- gives: learnCosts, writeLearned
--
-- What estimates learn of actual costs, by leaky/histogram.go.
--
-- The field learned of a queue has the histograms, as queue.PackLearned packs them: of each unit 1 byte of length, its
-- name, 2 bytes of length and, for each bucket with counts, its number and its count in 2 bytes. In the field
-- estimates, a learned cost follows the default and the percentage, as in "tokens=1000~95~1432". So an append reads
-- nothing more.

local COST_WEIGHT, MOST_WEIGHT, EXACT_BELOW, LAST_BUCKET, MOST_COST = 64, 512 * 64, 16, 223, 1000000000
local LEARN_AFTER, LEARNS = 32, '([%l%d_]+)=(%d+)~(%d+)[~%d]*'

local function bucketOfCost(cost)
  if cost < EXACT_BELOW then return cost end
  local fraction, exponent = math.frexp(cost)
  return 8 * (exponent - 4) + floor(fraction * 16)
end

local function mostIn(bucket)
  if bucket < EXACT_BELOW then return bucket end
  local shift = floor(bucket / 8) - 1
  return min(MOST_COST, (bucket - 8 * shift + 1) * 2 ^ shift - 1)
end

-- addCost counts a cost in a histogram.
local function addCost(h, cost)
  local bucket = bucketOfCost(cost)
  h.counts[bucket] = (h.counts[bucket] or 0) + COST_WEIGHT
  h.weight = h.weight + COST_WEIGHT
  if h.weight < MOST_WEIGHT then return end
  h.weight = 0
  for b, count in pairs(h.counts) do
    h.counts[b] = floor(count / 2)
    h.weight = h.weight + h.counts[b]
  end
end

-- quantile returns the greatest cost of the bucket in which so many percent are reached, or 0 while too few costs are
-- known.
local function quantile(h, percent)
  local need, sum = floor((h.weight * percent + 99) / 100), 0
  if h.weight < LEARN_AFTER * COST_WEIGHT then return 0 end
  for bucket = 0, LAST_BUCKET do
    sum = sum + (h.counts[bucket] or 0)
    if sum >= need then return mostIn(bucket) end
  end
  return 0
end

-- unpackLearned returns histograms by unit. What is damaged is left out.
local function unpackLearned(text)
  local all, pos = {}, 1
  while pos < #text do
    local unitEnd = pos + byte(text, pos)
    if unitEnd + 2 > #text then break end
    local h, size = { counts = {}, weight = 0 }, unpackStruct('>I2', text, unitEnd + 1)
    all[sub(text, pos + 1, unitEnd)], pos = h, unitEnd + 3
    for at = pos, min(pos + size, #text + 1) - 3, 3 do
      local bucket, count = unpackStruct('>BI2', text, at)
      h.counts[bucket], h.weight = count, h.weight + count
    end
    pos = pos + size
  end
  return all
end

local function packLearned(unit, h)
  local list = {}
  for bucket = 0, LAST_BUCKET do
    local count = h.counts[bucket] or 0
    if count > 0 then list[#list + 1] = pack('>BI2', bucket, count) end
  end
  local counts = table.concat(list)
  return string.char(#unit) .. unit .. pack('>I2', #counts) .. counts
end

-- setLearned writes what a queue has learned, of the units that its estimates learn.
local function setLearned(q, learned)
  local packed = {}
  q.learned = learned
  q.estimates = string.gsub(q.estimates or '', LEARNS, function(unit, default, percent)
    local text, h = unit .. '=' .. default .. '~' .. percent, learned[unit]
    if not h then return text end
    packed[#packed + 1] = packLearned(unit, h)
    local cost = quantile(h, tonumber(percent))
    return cost > 0 and text .. '~' .. string.format('%d', cost) or text
  end)
  if packed[1] then
    call('HSET', B .. 'q' .. q.nr, 'learned', table.concat(packed), 'estimates', q.estimates)
  else
    call('HDEL', B .. 'q' .. q.nr, 'learned')
  end
end

-- restoreLearned gives a queue packed histograms. Without packed, it adapts the stored ones to a changed spec.
local function restoreLearned(q, packed)
  local estimates, learned = unpack(call('HMGET', B .. 'q' .. q.nr, 'estimates', 'learned'))
  q.estimates = estimates
  if packed or learned then setLearned(q, unpackLearned(packed or learned)) end
end

local learning = {} -- queues whose histograms have changed

-- learnCosts counts the actual costs of a job, for the queue whose estimate applies: its own, or the parent.
local function learnCosts(q, actual)
  for _, stated in ipairs(actual) do
    local of, unit = q, ' ' .. stated.unit .. '='
    if not string.find(' ' .. (q.estimates or ''), unit, 1, true) then of = q.group end
    if of and stated.cost > 0 and string.find(' ' .. (of.estimates or ''), unit .. '%d+~') then
      of.learned = of.learned or unpackLearned(call('HGET', B .. 'q' .. of.nr, 'learned') or '')
      of.learned[stated.unit] = of.learned[stated.unit] or { counts = {}, weight = 0 }
      addCost(of.learned[stated.unit], stated.cost)
      learning[of] = true
    end
  end
end

-- writeLearned writes the histograms that have changed.
local function writeLearned()
  for q in pairs(learning) do setLearned(q, q.learned) end
  learning = {}
end
