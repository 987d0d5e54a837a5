#!lua flags=allow-oom
-- Update the calendars and the hours of a queue, or return the time by the wall clock, which they go by.
--
-- ARGV[2..5]  queue name or '', until when they are then known far enough, revision of the queue that they belong to,
--             its hours (see limits.lua) or ''
-- then     for each quota the name of the limit, its ends; for each ramp ramp:NAME, its ramp; and for each hours of
--          lanes lane:hNUMBER, its edges
-- Returns  wall

local NAME, ENDS, RAMP = 1, 8, 10 -- in the packed rule of a limit

begin()
local nr = ARGV[2] ~= '' and numberOf(ARGV[2])
local q = nr and readQueue(nr)
local kept = q and (call('HGET', B .. 'q' .. nr, 'limits') or ARGV[5] ~= '' and cmsgpack.pack({}))
if nr and (not q or q.revision ~= tonumber(ARGV[4])) then return wall end -- the change of the queue has updated them
if kept then
  local rules = cmsgpack.unpack(kept)
  for i = 6, #ARGV, 2 do
    local lane, ramp = string.match(ARGV[i], '^lane:(.*)$'), string.match(ARGV[i], '^ramp:(.*)$')
    if lane then call('HSET', B .. 'O' .. nr, lane, ARGV[i + 1]) end
    for _, rule in ipairs(rules) do
      if rule[NAME] == ARGV[i] then rule[ENDS] = ARGV[i + 1] end
      if rule[NAME] == ramp then rule[RAMP] = ARGV[i + 1] end
    end
  end
  if rules[1] then call('HSET', B .. 'q' .. nr, 'limits', cmsgpack.pack(rules)) end
  if ARGV[5] ~= '' then call('HSET', B .. 'q' .. nr, 'hours', ARGV[5]) end
end
-- A queue without calendars, or a deleted one, needs no update.
if kept and ARGV[3] ~= '' then
  call('ZADD', B .. 'E', ARGV[3], ARGV[2])
  M.firstChore = min(M.firstChore, ARGV[3] + skew)
elseif ARGV[2] ~= '' then
  call('ZREM', B .. 'E', ARGV[2])
end
finish()
return wall
