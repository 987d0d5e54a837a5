-- needs: leases, attemptoutcomes
--
-- The timeline of a job that failed: its attempts, in the format of internal/jobrecord/timeline.go.

local TIMELINE, ANSWER = 20, 200 -- the number of attempts kept, the first and the latest; bytes of an answer

-- addAttempt adds the attempt that ends now to the timeline of a lease record.
local function addAttempt(f, outcome, answer)
  local name = f.client and f.client > 0 and redis.pcall('HGET', B .. 'k', f.client)
  if type(name) ~= 'string' then name = '' end
  local past, count, cut = sub(f.timeline or '', 2), byte(f.timeline or '') or 0, min(#answer, ANSWER)
  if cut < #answer then -- between characters
    while cut > 0 and floor(byte(answer, cut + 1) / 64) == 2 do cut = cut - 1 end
  end
  if count == TIMELINE then -- the second is left out
    local first = unpackStruct('>I2', past) + 2
    local second = unpackStruct('>I2', past, first + 1) + 2
    past, count = sub(past, 1, first) .. sub(past, first + second + 1), count - 1
  end
  f.timeline = string.char(count + 1) .. past .. pack('>I2I7I7BB', 16 + #name + cut, min(f.due, now), now, outcome,
    #name)
    .. name .. sub(answer, 1, cut)
end
