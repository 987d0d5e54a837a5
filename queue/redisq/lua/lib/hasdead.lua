-- needs: dead
--
-- Whether the name of a deleted queue is still known; a part of its own, because few scripts need it.

-- hasDead reports whether a name has dead jobs that are not too old; k is what retention returns.
local function hasDead(k)
  local newest = call('ZRANGE', B .. 'd:' .. k.name, -1, -1, 'WITHSCORES')[2]
  return newest and newest + k.retentionFor > now
end
