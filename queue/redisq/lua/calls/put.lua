#!lua flags=allow-oom
-- needs: changes, ruleusers, adapt, agenda, backlog
-- for lanes: lanestate
-- for limits: limitchange, membership
-- for receiver: receiver
--
-- Create a queue or change its spec.
--
-- ARGV[2..18]  name, spec (canonical JSON), n, d, burst, capacity, lease in us, max attempts, retention in us, retained
--              ended jobs, expected revision (0: must not exist, -1: any), stamp of this call, places for what comes
--              back, most deferred, their greatest age in us and as text, 1 if jobs may be deferred unless they say
--              otherwise
-- ARGV[19..25] most in flight, most scheduled, '1' if ordered, rule of lanes, what stands for all that lanes go by,
--              number of rules for single lanes; for each: lane, rule. The first five are '' where there is nothing to
--              say
-- then most children of a name, '1' if it is a pull queue or '', until when the calendars of its limits are known well
-- enough or '', number of limits; for each: name, n, d, burst, most in a window, period, phase, ends (see limits.lua);
-- fields that the queue keeps as they are, and their values; the rules of its group that it names, with spaces between
-- them; the rule of its adapted rate or '' (see adapt.lua), by whom, '1' if the spec is an earlier one of the queue
-- Returns  {revision, created, changed, conflict, children}, conflict 2 if there are too many children, 3 if a pull
--          queue would have some, 4 if it would be one of a pull queue's; 5 if there is no such rule, 6 if it is of
--          concurrency, then which of them in place of children

begin()
check_run()
local name, spec, expect = ARGV[2], ARGV[3], tonumber(ARGV[12])
local n, d, b = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local nr = number_of(name)
local q = nr and load(nr)
local rev = q and q.rev or 0
-- This very call, repeated after a lost reply.
if q and call('HGET', B .. 'q' .. nr, 'stamp') == ARGV[13] then
  return { rev, rev == tonumber(call('HGET', B .. 'q' .. nr, 'made')) and 1 or 0, 1, 0 }
end
if expect >= 0 and expect ~= rev then return { rev, 0, 0, 1 } end

if q and call('HGET', B .. 'q' .. nr, 'spec') == spec then return { rev, 0, 0, 0 } end

local rules, arg = {}, 25 + 2 * tonumber(ARGV[24])
local plain = arg + 4 + 8 * tonumber(ARGV[arg + 3])
for i = arg + 4, plain - 1, 8 do
  local rule = { ARGV[i] }
  for k = 1, 6 do rule[k + 1] = tonumber(ARGV[i + k]) end
  rule[8] = ARGV[i + 7]
  rules[#rules + 1] = rule
end
with_limits(q or {})
local pull = ARGV[arg + 1]
if pull == '1' and groups.count_children(name) > 0 then return { rev, 0, 0, 3, groups.count_children(name) } end
local base = not q and membership.parent_of(name)
local over = base and number_of(base)
if over and call('HGET', B .. 'q' .. over, 'pull') then return { rev, 0, 0, 4 } end
if not q and not base then membership.child_numbers(name) end
if base and groups.count_children(base) >= tonumber(ARGV[arg]) then return { rev, 0, 0, 2 } end

local ruled = ARGV[#ARGV - 3]
if ruled ~= (q and q.ruled or '') then
  local i = 0
  for rule in string.gmatch(ruled, '%S+') do
    local algorithm = call('HGET', rule_key(rule), 'algorithm')
    if not algorithm or algorithm == 'concurrency' then return { rev, 0, 0, algorithm and 6 or 5, i } end
    i = i + 1
  end
  check_rule_keys()
end

check_change_keys('queue', name)
local was = rev
local by_lanes = q and q.laned or ''
for i = 19, 23 do
  if ARGV[i] ~= '' then by_lanes = '1' end
end
if q then
  with_lanes(q) -- looks at the types
  if by_lanes ~= '' and not q.laned then lanes.check_lane_keys(q) end
end
local regime = by_lanes ~= '' and call('HGET', B .. 'q' .. (nr or ''), 'regime') or ''

-- own_rules replaces the rules of single lanes. What rests or is busy by the old ones
-- is to be made ready, bit by bit; while some of an earlier change are, the others
-- follow when those are done: there may be a million of either.
local function own_rules()
  local overrides, put_off, changed = { B .. 'O' .. nr }, B .. 'b' .. nr, B .. 'i' .. nr
  for k = 25, 24 + 2 * tonumber(ARGV[24]) do overrides[#overrides + 1] = ARGV[k] end
  call('UNLINK', B .. 'O' .. nr)
  if overrides[2] then call('HSET', unpack(overrides)) end
  local under_way = call('EXISTS', changed) > 0
  call('HSET', B .. 'q' .. nr, 'again', under_way and '1' or '')
  if not under_way and call('EXISTS', put_off) > 0 then call('RENAME', put_off, changed) end
end

local adapt
n, d, adapt = adapt_to_spec(q or {}, ARGV[#ARGV - 2], n, d)
local created, had = 0, q and q.limits or {}
if not q then
  call('HDEL', B .. 'R', name)
  created = 1
  local seq = tostring(call('HINCRBY', B, 'qseq', 1))
  -- Numbers that sort as text in the order they were made, and stay short.
  nr = (#seq > 1 and string.char(95 + #seq) or '') .. seq
  q = { nr = nr, name = name, n = n, d = d, b = b, tat = 0, rem = 0, last = 0, lc = 0, cmax = 1, changes = {} }
  -- A queue made again goes on where the deleted one stopped.
  local before, grave = {}, call('HGET', B .. 'x', name)
  if grave then
    local limits
    q.tat, q.last, q.lc, q.n, q.d, q.b, limits = unpack_('>I7I7I2I7I7I7', grave)
    before = limitchange.kept_limits(sub(grave, limits))
    call('HDEL', B .. 'x', name)
    call('ZREM', B .. 'X', name)
    change(q, n, d, b, now, now + HORIZON)
  end
  if rules[1] then q.limits = limitchange.carry_over(rules, before) end
  -- In a later run than the store's first it may have been there before, and have
  -- granted, and be lost with all of it.
  if M.run_since > 0 then
    delay(q, M.run_since + HORIZON, q.cmax)
    q.hc = q.cmax
  end
  call('HSET', B .. 'q' .. nr, 'name', name, 'epoch', M.run, 'lf', 0, 'size', 0, 'bytes', 0, 'turn', 9 * 2 ^ 49, 'cmax',
    1, 'hc', q.hc or MAX_COST, 'hm', q.cmax, 'refn', 0, 'paused', '')
  call('HSET', B .. 'n', name, nr)
  call('ZADD', B .. 'N', 0, name)
  call('HINCRBY', B, 'queues', 1)
else
  if n ~= q.n or d ~= q.d or b ~= q.b then change(q, n, d, b, now, now + HORIZON) end
  q.limits = rules[1] and limitchange.carry_over(rules, q.limits or {}) or nil
end
rev = call('HINCRBY', B, 'rev', 1)
if created == 1 then call('HSET', B .. 'q' .. nr, 'made', rev) end
call('HSET', B .. 'q' .. nr, 'spec', spec, 'rev', rev, 'stamp', ARGV[13], 'n', n, 'd', d, 'b', b, 'tat', q.tat, 'rem',
  q.rem, 'last', q.last, 'lc', q.lc,
  'cap', ARGV[7], 'lease', ARGV[8], 'maxatt', ARGV[9], 'rfor', ARGV[10], 'rmax', ARGV[11],
  'mark', ARGV[14], 'dmax', ARGV[15], 'dage', ARGV[16], 'dagetext', ARGV[17], 'defers', ARGV[18])
call('HSET', B .. 'q' .. nr, unpack(ARGV, plain, #ARGV - 4))
if ruled ~= (q.ruled or '') then
  if ruled == '' then call('HDEL', B .. 'q' .. nr, 'ruled') else call('HSET', B .. 'q' .. nr, 'ruled', ruled) end
  asked_anew(group_of(name))
end
if adapt then call('HSET', B .. 'q' .. nr, 'adapt', adapt) else call('HDEL', B .. 'q' .. nr, 'adapt', 'adaptions') end
if q.limits then
  call('HSET', B .. 'q' .. nr, 'limits', limitchange.rules_of(q.limits), 'lstate', limits.states_of(q.limits))
  if not limitchange.same_rules(q.limits, had) then call('HSET', B .. 'q' .. nr, 'lchanged', now) end
elseif created == 0 then
  call('HDEL', B .. 'q' .. nr, 'limits', 'lstate', 'lchanged')
end
if by_lanes ~= '' then
  call('HSET', B .. 'q' .. nr, 'laned', '1', 'mif', ARGV[19], 'msched', ARGV[20], 'ordered', ARGV[21], 'lrule',
    ARGV[22], 'regime', ARGV[23], 'lover', ARGV[24])
  if regime ~= ARGV[23] then own_rules() end
end
if ARGV[arg + 2] ~= '' then call('ZADD', B .. 'E', ARGV[arg + 2], name) else call('ZREM', B .. 'E', name) end
if pull ~= (q.pull or '') then
  call('ZREM', agenda_key(q, 'a'), nr)
  call('ZREM', agenda_key(q, 's'), nr)
  q.pull = pull == '1' and pull or nil
  if q.pull then call('HSET', B .. 'q' .. nr, 'pull', '1') else call('HDEL', B .. 'q' .. nr, 'pull') end
end
log_pause_end(q)
if created == 1 then unmark_deleted('queue', name) end
log_change('queue', name, now, ARGV[#ARGV - 1], ARGV[#ARGV] == '1' and 'rolled_back' or created == 1 and 'created'
  or 'changed', rev, was, '', '', 0)
keep_document('queue', name, rev, spec)
if created == 1 then
  membership.add_to_group(q, name)
else
  membership.save_links(q)
  if q.group == q then set(q, 'gsince', now) end
  if ARGV[#ARGV - 4] == '' and q.receiver and q.receiver.opened > 0 then receiver.close_circuit(q) end
  if q.lapsed then
    call('HSET', B .. 'q' .. nr, 'paused', '')
    read_pause(q, '')
  end
  q.laned, q.lw = by_lanes ~= '' and by_lanes or nil, nil -- read what is new
  local e = put_on_agenda(q)
  if e then wake_for(e, q) end
  q.cap = tonumber(ARGV[7])
  announce_room(q)
  save(q)
end
finish()
return { rev, created, 1, 0 }
