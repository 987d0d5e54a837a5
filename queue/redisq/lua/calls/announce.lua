#!lua flags=allow-oom
-- needs: overflow
--
-- Note that the overflow has a job of a queue that the store was not asked about.
--
-- ARGV[2]  queue name
-- Returns  0 if the queue is unknown, else 1

begin()
call('ZCARD', B .. 'o')
local nr = numberOf(ARGV[2])
local q = nr and load(nr)
if not q then return 0 end
set(q, 'behind', max(1, q.behind))
set(q, 'announced', now)
trackBacklog(q)
save(q)
finish()
return 1
