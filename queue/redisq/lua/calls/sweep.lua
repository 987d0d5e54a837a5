#!lua flags=allow-oom
-- Free some keys of the first deleted queue: at most about 500.
--
-- Returns  {1 if there are more, else 0, the names of queues whose calendars must be renewed}

begin()
local stale = call('ZRANGEBYSCORE', B .. 'E', '-inf', wall, 'LIMIT', 0, 20)
local Z = B .. 'z'
local nr = call('LINDEX', Z, 0)
if not nr then return { 0, stale } end

local function free(ids)
  local keys = {}
  for i, id in ipairs(ids) do keys[i] = jobKey(nr, id) end
  if keys[1] then call('UNLINK', unpack(keys)) end
  return #keys
end

for suffix, kind in pairs({ w = 'zset', t = 'zset', f = 'hash', e = 'list', L = 'zset', b = 'zset', i = 'zset',
  h = 'hash', u = 'zset', K = 'zset' }) do
  local is = call('TYPE', B .. suffix .. nr).ok
  if is ~= kind and is ~= 'none' then call('UNLINK', B .. suffix .. nr) end
end

local freed = 0

-- lanesOf frees the waiting jobs of the lanes under a key, and the lanes. It reports whether all are gone.
local function lanesOf(suffix)
  local key = B .. suffix .. nr
  for _, lane in ipairs(suffix == 'h' and call('HRANDFIELD', key, 100) or call('ZRANGE', key, 0, 99)) do
    local W, ids = B .. 'w' .. nr .. ':' .. lane, {}
    local jobs = redis.pcall('ZPOPMIN', W, max(1, 500 - freed))
    for i = 1, #jobs, 2 do ids[#ids + 1] = jobs[i] end
    freed = freed + free(ids) + 1
    if freed >= 500 then return false end
    call('UNLINK', W, B .. 'v' .. nr .. ':' .. lane)
    if suffix == 'h' then call('HDEL', key, lane) else call('ZREM', key, lane) end
  end
  return call('EXISTS', key) == 0
end

for _, suffix in ipairs({ 'L', 'b', 'i', 'h' }) do
  if not lanesOf(suffix) then return { 1, stale } end
end
call('UNLINK', B .. 'k' .. nr, B .. 'O' .. nr, B .. 'u' .. nr, B .. 'T' .. nr)
for _, set in ipairs({ 'w', 't' }) do
  local ids = {}
  for i, v in ipairs(call('ZPOPMIN', B .. set .. nr, 500 - freed)) do
    if i % 2 == 1 then ids[#ids + 1] = v end
  end
  freed = freed + free(ids)
  if freed >= 500 then return { 1, stale } end
end
local flying = call('HRANDFIELD', B .. 'f' .. nr, 500 - freed)
if flying[1] then
  local leases = {}
  for i, id in ipairs(flying) do leases[i] = nr .. ':' .. id end
  call('ZREM', B .. 'l', unpack(leases))
  freed = freed + free(flying)
  call('HDEL', B .. 'f' .. nr, unpack(flying))
end
if freed >= 500 then return { 1, stale } end
local over = {}
for _, entry in ipairs(call('LPOP', B .. 'e' .. nr, 500 - freed) or {}) do
  -- A job that died after it was appended again stays, with the dead jobs of its name.
  local id = sub(entry, 8)
  if redis.pcall('GETRANGE', jobKey(nr, id), 0, 7) == 'E' .. sub(entry, 1, 7) then over[#over + 1] = id end
end
freed = freed + free(over)
if freed >= 500 then return { 1, stale } end
call('UNLINK', B .. 'r' .. nr, B .. 'K' .. nr, B .. 'Q' .. nr, B .. 'M' .. nr)
call('LPOP', Z)
return { call('LLEN', Z) > 0 and 1 or 0, stale }
