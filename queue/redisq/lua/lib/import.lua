-- Which import a queue is open for.

local IMPORT = { 'import', 'importing' }

-- importOf returns the mark of a queue's latest import, or '', and whether it is not closed yet.
local function importOf(nr)
  local v = call('HMGET', B .. 'q' .. nr, unpack(IMPORT))
  return v[1] or '', v[2] == '1'
end
