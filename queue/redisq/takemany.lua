-- Of take alone, made where there is more than one question of a rule, behind tallies.lua.

local function ask_many(prefix, bounds, questions)
  local by_key, tallies, asked, at = {}, {}, {}, 1
  bounds = bounds_of(bounds)
  while at <= #questions do
    local op, bound, digest, cost, length = unpack_(QUESTION, questions, at)
    at = at + QUESTION_BYTES
    local s = by_key[digest]
    if not s and op ~= NOTHING then
      s = { key = prefix .. digest, l = bounds[bound], us = 0, rest = 0, settled = false, changed = false }
      by_key[digest] = s
      tallies[#tallies + 1] = s
    end
    asked[#asked + 1] = { s or 0, op, cost, sub(questions, at, at + length - 1) }
    at = at + length
  end
  read_all(tallies)
  for i, q in ipairs(asked) do asked[i] = q[2] == NOTHING and string.rep('\0', 21) or answer(unpack(q)) end
  if write_all(tallies) then wrote = true end
  return table.concat(asked)
end
