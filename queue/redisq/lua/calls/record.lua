#!lua
-- for auditwrite: auditwrite
--
-- Write an entry of the audit log about an action that changed nothing in the store.
--
-- ARGV[2..9]  actor, of, name, what, refused, times, detail, reason
-- Returns  1

begin()
writeAudit({ at = wall, by = ARGV[2], of = ARGV[3], name = ARGV[4], what = ARGV[5], refused = ARGV[6],
  times = tonumber(ARGV[7]), detail = ARGV[8], reason = ARGV[9] })
finish()
return 1
