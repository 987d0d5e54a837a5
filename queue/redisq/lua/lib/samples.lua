-- Samples of series: numbered blobs that are kept for a while.

-- samplesOf returns the key of a series, and the numbers of its samples in order.
local function samplesOf(series)
  local key, numbers = B .. 'Z:' .. series, {}
  for i, number in ipairs(call('HKEYS', key)) do numbers[i] = tonumber(number) or 0 end
  table.sort(numbers)
  return key, numbers
end
