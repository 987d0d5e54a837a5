#!lua flags=allow-oom
-- needs: samples
--
-- Read the samples of a series that follow a number.
--
-- ARGV[2..4]  series, number, maximum of bytes
-- Returns  {number, data; for each}: at least one if there is one

begin()
local key, numbers = samplesOf(ARGV[2])
local rows, size, after, most = {}, 0, tonumber(ARGV[3]), tonumber(ARGV[4])
for _, number in ipairs(numbers) do
  if number > after then
    local data = call('HGET', key, string.format('%.0f', number))
    size = size + #data
    if rows[1] and size > most then break end
    rows[#rows + 1], rows[#rows + 2] = number, data
  end
end
return rows
