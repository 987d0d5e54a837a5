-- Of append alone, made where a queue asks its jobs, behind tally.lua: the rules that decide what comes in (docs/engine.md, Rules).

local ASK, ASK_BYTES = '>BI2c16', 19

-- ruling reads what a queue's jobs ask, and what was taken under the keys that they ask about: numbers and actions of the rules, bounds, and of
-- each job its asks, the third of its arguments.
local function ruling(rules_text, bounds, first, count)
  local numbers, actions = {}, {}
  for nr, action in string.gmatch(rules_text, '(%d+)(%a)') do
    numbers[#numbers + 1], actions[#actions + 1] = B .. 'V' .. nr .. ':', action
  end
  bounds = bounds_of(bounds)
  local by_key, tallies, jobs = {}, {}, {}
  for i = first, first + 3 * count - 1, 3 do
    local text = ARGV[i + 2]
    local job = { unaskable = text == '!', asked = false }
    for at = 1, job.unaskable and 0 or #text, ASK_BYTES do
      local rule, bound, digest = unpack_(ASK, text, at)
      local key = numbers[rule] .. digest
      local s = by_key[key]
      if not s then
        s = { key = key, l = bounds[bound], us = 0, rest = 0, settled = false, changed = false } -- in one piece: a table that grows costs more
        by_key[key] = s
        tallies[#tallies + 1] = s
      end
      job[#job + 1] = { s = s, action = actions[rule], allowed = false, remaining = 0, retry = 0, reset = 0, us = 0, rest = 0 }
    end
    jobs[i] = job
  end
  read_all(tallies)
  return jobs, tallies
end

-- judge asks all that a job asks. If it is refused it returns how long to wait, and whether all who refuse it would have it put aside.
local function judge(job, cost)
  local wait, defers = nil, true
  for _, a in ipairs(job) do
    local s = a.s
    a.allowed, a.remaining, a.retry, a.reset, a.us, a.rest = s.l.kind.ask(s.l, s, cost)
    if not a.allowed and a.action ~= 's' then
      wait, defers = max(wait or 0, a.retry), defers and a.action == 'd'
    end
  end
  job.asked = true
  return wait, defers
end

-- leave keeps what a refusal leaves: what is ahead of now drains from then on.
local function leave(job)
  for _, a in ipairs(job) do
    if not a.allowed and a.s.settled then a.s.changed = true end
  end
end

-- charge takes from all that allowed a job, which was judged last.
local function charge(job, cost)
  for _, a in ipairs(job) do
    if a.allowed then
      a.s.l.kind.take(a.s.l, a.s, cost, '', a.us, a.rest)
      a.s.changed, a.s.settled = true, false
    end
  end
  leave(job)
end

-- said is what a job was answered by those that it asked.
local function said(job)
  if not job.asked then return '' end
  local out = {}
  for i, a in ipairs(job) do out[i] = pack('>BI4I8I8', a.allowed and 1 or 0, a.remaining, a.retry, a.reset) end
  return table.concat(out)
end
