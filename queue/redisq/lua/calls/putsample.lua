#!lua flags=allow-oom
-- needs: memory, samples
--
-- Add a sample to its series, unless the series has one with this or a higher number, and drop old ones.
--
-- ARGV[2..5]  series, number, data; how many numbers to keep
-- Returns  1 if it was added, else 0

begin()
local number, keep = tonumber(ARGV[3]), tonumber(ARGV[5])
local key, numbers = samplesOf(ARGV[2])
if numbers[1] and numbers[#numbers] >= number then return 0 end
if memoryFull() then raise('OOM', NEARLY_OUT) end
for _, old in ipairs(numbers) do
  if old <= number - keep then call('HDEL', key, string.format('%.0f', old)) end
end
call('HSET', key, ARGV[3], ARGV[4])
finish()
return 1
