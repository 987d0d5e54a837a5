-- needs: dead
--
-- Whether a deleted queue still has a name; a part of its own, because few scripts ask.

-- hasDead reports whether a name has dead jobs that are not too old; k is its retention.
local function hasDead(k)
  local newest = call('ZRANGE', B .. 'd:' .. k.name, -1, -1, 'WITHSCORES')[2]
  return newest and newest + k.retentionFor > now
end
