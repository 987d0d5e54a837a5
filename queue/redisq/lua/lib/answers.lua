-- Shared: a call over many jobs, which would do more if it were repeated.

-- once returns what this very call was answered, when it is repeated after a lost reply.
local function once(name)
  local answered = call('GET', B .. 'm:' .. name)
  return answered and cmsgpack.unpack(answered)
end

local function answer_once(name, answer)
  call('SET', B .. 'm:' .. name, cmsgpack.pack(answer), 'PX', 60000)
  return answer
end
