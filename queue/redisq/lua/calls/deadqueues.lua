#!lua flags=allow-oom
-- needs: dead
--
-- List the names of queues that have dead jobs, including deleted queues.
--
-- ARGV[2..3]  after, limit
-- Returns  {names, last name looked at, or '' at the end}; five entries a name: name, number of dead jobs, when the
--          oldest died, '1' if its queue is gone, bytes that they take; or name, -1, error, '', 0

begin()
local limit, rows, forgotten = tonumber(ARGV[3]), {}, 0
local names = call('ZRANGEBYLEX', B .. 'Y', ARGV[2] == '' and '-' or '(' .. ARGV[2], '+', 'LIMIT', 0, limit)

local function show(name)
  checkDeadKeys(name)
  local k, n = retention(name), #rows
  if not k then return end
  if forgotten < 500 then -- before they are counted
    local before = M.dead
    trimDead(k)
    forgotten = forgotten + before - M.dead
  end
  local count, oldest = call('ZCARD', B .. 'd:' .. name), call('ZRANGE', B .. 'd:' .. name, '0', '0', 'WITHSCORES')[2]
  if count == 0 then return end
  for i, v in ipairs({ name, count, oldest, k.nr and '' or '1', (k.deadBytes or 0) + 0 }) do rows[n + i] = v end
end

for _, name in ipairs(names) do
  -- A name with broken keys must not hide the others.
  local ok, e = pcall(show, name)
  if not ok then
    for _, v in ipairs({ name, -1, errorText(e), '', 0 }) do rows[#rows + 1] = v end
  end
end
finish()
return { rows, #names == limit and names[limit] or '' }
