-- needs: groups, agenda
-- gives: parent_of, save_links, child_numbers, add_to_group, leave_group
--
-- Queues that become members of a group, and that leave it.

local function parent_of(name) return string.match(name, '^(.*)%.') end

-- save_links writes the field also, by which load knows that there are limits or a group.
local function save_links(q)
  local also = (q.limits and '1' or '0') .. ':' .. (q.group and q.group.nr or '')
  call('HSET', B .. 'q' .. q.nr, 'also', also ~= '0:' and also or '')
end

-- rest_as_on_agenda takes a queue off the agenda and lets it rest in its group until the same instant.
local function rest_as_on_agenda(nr, g)
  local stood = call('ZSCORE', B .. 'a', nr)
  if not stood then return end
  call('ZREM', B .. 'a', nr)
  call('ZADD', B .. 'R' .. g.nr, stood, nr)
end

-- make_group makes a group of a queue, which knows of no members but itself.
local function make_group(g)
  load_member(g, g.nr)
  set(g, 'gserved', 0)
  set(g, 'gsince', 0)
  set(g, 'gwaiting', 0)
  set(g, 'gmembers', 0)
  set(g, 'gcmax', max(g.gcmax, g.cmax))
  set(g, 'finish', 0)
  set(g, 'told', 0)
  call('DEL', B .. 'R' .. g.nr, B .. 'Y' .. g.nr)
  report_waiting(g)
  rest_as_on_agenda(g.nr, g)
  save_links(g)
end

-- child_numbers returns the numbers of the queues that have this parent, or will have it once it is made. It raises
-- unless their keys have the right types: a child left out would escape the rate of the group.
local function child_numbers(name)
  local numbers = {}
  for i, child in ipairs(call('ZRANGEBYLEX', B .. 'N', '[' .. name .. '.', '(' .. name .. '/')) do
    local nr = number_of(child)
    call('HLEN', B .. 'q' .. nr)
    call('ZCARD', B .. 'w' .. nr)
    numbers[i] = nr
  end
  return numbers
end

-- join_group makes an existing queue a child of the one that is being made.
local function join_group(g, nr)
  local key = B .. 'q' .. nr
  local q = read_queue(nr)
  local waiting = call('ZCARD', B .. 'w' .. nr) + (q.laned and tonumber(call('HGET', key, 'lw')) or 0)
  call('HSET', key, 'also', (q.also and sub(q.also, 1, 1) or '0') .. ':' .. g.nr, 'told', waiting, 'finish', 0)
  set(g, 'gwaiting', g.gwaiting + waiting)
  set(g, 'gmembers', g.gmembers + (waiting > 0 and 1 or 0))
  rest_as_on_agenda(nr, g)
end

-- add_to_group makes a queue that has just been made a member of its group, if it has a parent or children. Its name is
-- on the list already.
local function add_to_group(q, name)
  local base = parent_of(name)
  local nr = base and number_of(base)
  local g = nr and load(nr)
  if g then
    if not g.group then make_group(g) end
    q.group, q.told = g, 0
    save_links(q)
    put_group_on_agenda(g)
    return save(g)
  end
  if base or count_children(name) == 0 then return save_links(q) end
  make_group(q)
  set(q, 'gsince', now)
  for _, nr in ipairs(child_numbers(name)) do join_group(q, nr) end
  put_group_on_agenda(q)
  save(q)
end

-- leave_group takes a child that is being deleted out of its group. If it was the last one the parent is a plain queue
-- again.
local function leave_group(q, name)
  local g = q.group
  call('ZREM', B .. 'R' .. g.nr, q.nr)
  call('ZREM', B .. 'Y' .. g.nr, q.nr)
  set(g, 'gwaiting', max(0, g.gwaiting - q.told))
  set(g, 'gmembers', max(0, g.gmembers - (q.told > 0 and 1 or 0)))
  if count_children(parent_of(name)) > 0 then
    put_group_on_agenda(g)
  else
    call('DEL', B .. 'R' .. g.nr, B .. 'Y' .. g.nr)
    g.group = nil
    save_links(g)
    if g.laned then with_lanes(g) end
    put_on_agenda(g)
  end
  save(g)
end
