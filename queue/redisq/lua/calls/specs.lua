#!lua
-- needs: versions
--
-- Read the specs of queues.
--
-- ARGV[2..]  names
-- Returns  three values for each existing queue: name, revision, spec

begin()
local names, out = { unpack(ARGV, 2) }, {}
for i, nr in ipairs(call('HMGET', B .. 'n', unpack(names))) do
  -- A queue with broken keys must not hide the others.
  local ok, spec, rev = pcall(specOf, names[i])
  if nr and ok and rev then
    for _, value in ipairs({ names[i], rev, spec }) do out[#out + 1] = value end
  end
end
return out
