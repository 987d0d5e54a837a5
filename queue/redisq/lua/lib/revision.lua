-- needs: firstrevision
--
-- nextRevision returns the revision of a change: milliseconds of the engine's clock, and more than every revision
-- before. It says when the change was made, and not how many changes of other queues, rules and documents there were.
local function nextRevision()
  local rev = max((tonumber(call('HGET', B, 'rev')) or 0) + 1, floor((now - FIRST_REVISION) / 1000))
  call('HSET', B, 'rev', string.format('%.0f', rev))
  return rev
end
