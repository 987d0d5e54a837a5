-- Which import a queue is open for.

-- importOf returns the mark of a queue's latest import, or '', and whether it is not closed yet.
local function importOf(nr)
  local mark, open = unpack(call('HMGET', B .. 'q' .. nr, 'importMark', 'importOpen'))
  return mark or '', open == '1'
end
