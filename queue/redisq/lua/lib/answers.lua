-- Answers of calls over many jobs, kept for a while: such a call would do more if it were carried out twice.

-- earlierAnswer returns what this very call was answered, when it is repeated after a lost reply.
local function earlierAnswer(name)
  local answered = call('GET', B .. 'm:' .. name)
  return answered and cmsgpack.unpack(answered)
end

local function keepAnswer(name, answer)
  call('SET', B .. 'm:' .. name, cmsgpack.pack(answer), 'PX', 60000)
  return answer
end
