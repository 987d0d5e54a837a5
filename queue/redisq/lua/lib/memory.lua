-- Whether the server has memory for new jobs. Appends stop before memory runs out, so that calls that free memory, and
-- the server's own work, go on (docs/design.md). Memory is looked at once a second, and whenever this partition has
-- taken its part of half of what was free, because a job takes more memory than is counted for it. While there is no
-- memory left, it is looked at ten times a second.
--
--   memoryUntil   until when the last look holds
--   memoryLeft    bytes that this partition may take until then; below 1 no job comes in
--   memoryShare   of the server's memory, for a queue without max_bytes; 0 without a bound
--   memoryFair    of the server's memory, for the jobs of one queue: FAIR_SHARE times what was free; nil: no bound

local MEMORY_SHARE, MEMORY_MARGIN, MOST_MARGIN = 4, 10, 2 ^ 30 -- a quarter; a tenth, at most 1 GiB
local FAIR_SHARE = 4 -- as jobsize.FairShare
local NEARLY_OUT = 'nearly out of memory: what is left is for what frees some'

-- memoryFull reports whether there is no memory for new jobs.
local function memoryFull()
  if now < M.memoryUntil then return M.memoryLeft < 1 end
  local info = call('INFO', 'memory')
  local function number(field) return tonumber(string.match(info, '\n' .. field .. ':(%d+)')) or 0 end
  local limit = number('maxmemory')
  if limit == 0 then limit = number('total_system_memory') end
  local used = number('used_memory') - number('mem_not_counted_for_evict')
  M.memoryShare, M.memoryLeft, M.memoryFair = floor(limit / MEMORY_SHARE), ANY_BYTES, nil
  if limit > 0 then
    local free = limit - min(floor(limit / MEMORY_MARGIN), MOST_MARGIN) - used
    M.memoryLeft = floor(free / 2 / (tonumber(call('HGET', B, 'partitions')) or 1))
    M.memoryFair = FAIR_SHARE * max(1, free)
  end
  M.memoryUntil = now + (M.memoryLeft > 0 and SECOND or SECOND / 10)
  return M.memoryLeft < 1
end

-- took counts the bytes of new jobs.
local function took(bytes)
  M.memoryLeft = M.memoryLeft - bytes
  if M.memoryLeft < 1 then M.memoryUntil = 0 end
end

