-- kept_for is how long changes are kept, in the change log and in the audit log.
local function kept_for() return tonumber(call('HGET', B, 'keepchanges')) or 400 * 86400 * SECOND end
