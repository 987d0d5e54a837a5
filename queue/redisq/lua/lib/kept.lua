-- keptFor is how long changes are kept, in the change log and in the audit log.
local knownKept
local function keptFor()
  knownKept = knownKept or tonumber(call('HGET', B, 'keepchanges')) or 400 * 86400 * SECOND
  return knownKept
end
