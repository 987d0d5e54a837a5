-- Answers of calls over many jobs, kept for a while: such a call would do more if it were carried out twice.

-- earlier_answer returns what this very call was answered, when it is repeated after a lost reply.
local function earlier_answer(name)
  local answered = call('GET', B .. 'm:' .. name)
  return answered and cmsgpack.unpack(answered)
end

local function keep_answer(name, answer)
  call('SET', B .. 'm:' .. name, cmsgpack.pack(answer), 'PX', 60000)
  return answer
end
