-- Answers of calls over many jobs, kept for a while: repeating such a call would change more jobs.

-- earlierAnswer returns the answer to this very call if it is repeated after a lost reply.
local function earlierAnswer(name)
  local answered = call('GET', B .. 'm:' .. name)
  return answered and cmsgpack.unpack(answered)
end

local function keepAnswer(name, answer)
  call('SET', B .. 'm:' .. name, cmsgpack.pack(answer), 'PX', 60000)
  return answer
end
