#!lua flags=allow-oom
-- needs: ruleusers
--
-- Read rules.
--
-- ARGV[2..4]  'get', name; or 'list', after, limit
-- Returns  {name to continue with, or '', rules}: for each {name, revision, is, rule, queues, keys that it holds}, or
--          {name, error}

begin()

-- held returns how many keys a rule holds (see rulekeys.lua).
local function held(nr)
  local n = redis.pcall('ZCARD', B .. 'W' .. (nr or ''))
  if type(n) ~= 'number' or n == 0 then return 0 end
  local first = call('ZRANGE', B .. 'W' .. nr, '0', '0', 'WITHSCORES')
  return first[1] == '' and (n - 1) * 2 ^ -tonumber(first[2]) or n
end

local MOST_QUEUES = 2000 -- a page ends after it has looked at so many

local names = { ARGV[3] }
if ARGV[2] == 'list' then
  names = call('ZRANGEBYLEX', B .. 'U', ARGV[3] == '' and '-' or '(' .. ARGV[3], '+', 'LIMIT', 0, tonumber(ARGV[4]))
end
local out, group, by, seen, count = {}, nil, nil, 0, 0
for i, name in ipairs(names) do
  local v = redis.pcall('HMGET', ruleKey(name), 'rev', 'rule', 'nr')
  if v.err then
    out[#out + 1] = { name, v.err }
  elseif v[1] then
    local rev, rule, nr = unpack(v)
    if groupOf(name) ~= group then
      if seen >= MOST_QUEUES then return { names[i - 1], out } end
      group = groupOf(name)
      by, count = askers(group)
      seen = seen + count
    end
    out[#out + 1] = { name, tonumber(rev), call('HGET', B, isField(name)) or '', rule, by[name] or {}, held(nr) }
  end
end
return { ARGV[2] == 'list' and #names == tonumber(ARGV[4]) and names[#names] or '', out }
