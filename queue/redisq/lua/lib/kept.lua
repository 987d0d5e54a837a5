-- keptFor is how long changes are kept, in the change log and in the audit log.
local function keptFor() return tonumber(call('HGET', B, 'keepchanges')) or 400 * 86400 * SECOND end
