-- needs: departures
--
-- Calendars of quotas, and ramps, which make the maximum of a quota grow from window to window: leaky.Calendar and
-- leaky.Ramp.
--
-- l.ramp is 1 byte, whether windows in which nothing left do not count (l.hold); 7 bytes, from when on windows count
-- (l.from) if so, or else NO_PAST more than the step of the window with the number 0 (l.past); 4 bytes for each step.

local END_BYTES, RAMP_HEAD, STEP_BYTES, NO_PAST = 7, 8, 4, 2 ^ 48

local function endAt(l, i) return (unpackStruct('>I7', l.ends, (i - 1) * END_BYTES + 1)) end

-- firstEndAfter returns the index, from 1, of the first end of a calendar after t.
local function firstEndAfter(l, t)
  local low, high = 1, #l.ends / END_BYTES + 1
  while low < high do
    local middle = floor((low + high) / 2)
    if endAt(l, middle) > t then high = middle else low = middle + 1 end
  end
  return low
end

-- lastStep returns the last end of a calendar, and how long its last window is.
local function lastStep(l)
  local count = #l.ends / END_BYTES
  return endAt(l, count), endAt(l, count) - endAt(l, count - 1)
end

-- endOf returns the end of the window that t is in.
local function endOf(l, t)
  if l.period > 0 then return t + l.period - (t - l.phase) % l.period end
  local i = firstEndAfter(l, t)
  if i <= #l.ends / END_BYTES then return endAt(l, i) end
  local last, step = lastStep(l)
  return t + step - (t - last) % step
end

-- skip returns the end that comes k windows after the given one.
local function skip(l, ends, k)
  if l.period > 0 then return min(ends + k * l.period, FARTHEST) end
  local i, count = firstEndAfter(l, ends - 1) + k, #l.ends / END_BYTES
  if i <= count then return endAt(l, i) end
  local last, step = lastStep(l)
  return min(max(ends, last) + min(k, i - count) * step, FARTHEST)
end

-- windowNumber returns the number of the window with this end.
local function windowNumber(l, ends)
  if l.period > 0 then return floor((ends - l.phase) / l.period) end
  local i, count = firstEndAfter(l, ends - 1), #l.ends / END_BYTES
  if i <= count then return i - 1 end
  local last, step = lastStep(l)
  return count - 1 + floor((ends - last) / step)
end

-- setRamp sets the ramp of a quota.
local function setRamp(l, ramp)
  l.lastStep = 0
  if ramp == '' then return end
  local hold, from = unpackStruct('>BI7', ramp)
  l.ramp, l.lastStep, l.hold = ramp, (#ramp - RAMP_HEAD) / STEP_BYTES - 1, hold == 1
  if l.hold then l.from = from else l.past = from - NO_PAST end
end

-- stepOf returns the step of a window, which may be below 0 or beyond the last one.
local function stepOf(l, ends, step)
  if l.hold or not l.ramp then return step end
  return windowNumber(l, ends) + l.past
end

-- most returns the maximum of the window with this end and step.
local function most(l, ends, step)
  if not l.ramp then return l.max end
  step = min(max(stepOf(l, ends, step), 0), l.lastStep)
  return (unpackStruct('>I4', l.ramp, RAMP_HEAD + STEP_BYTES * step + 1))
end

-- grown returns the step of the window after the one with this end and step.
local function grown(l, ends, step, isUsed)
  if l.hold and isUsed and ends > l.from then return min(step + 1, l.lastStep) end
  return step
end

-- same returns in how many windows, from this one on, the maximum stays, if something leaves in all of them.
local function same(l, ends, step)
  local at = stepOf(l, ends, step)
  if at >= l.lastStep then return math.huge end
  if not l.hold then return 1 + max(0, -at) end
  if ends > l.from then return 1 end
  return 1 + windowNumber(l, endOf(l, l.from)) - windowNumber(l, ends)
end

-- carriedStep returns the step at which l goes on after another quota, whose present maximum is given: the greatest
-- whose maximum is not above it. A quota that did not grow is no reason to skip steps.
local function carriedStep(l, o, present)
  local step = 0
  while l.hold and o.ramp and step < l.lastStep and most(l, 0, step + 1) <= present do step = step + 1 end
  return step
end

-- turn is leaky.Quota.Turn: it returns when the window begins in which a job departs that has so much ahead of it, and
-- how much of that departs in the same window. Of the present window, the rest is nil.
local function turn(l, ends, used, step, ahead)
  local over = ahead - max(0, most(l, ends, step) - used)
  if over < 0 then return nil end
  while true do
    local after = skip(l, ends, 1)
    local nextStep = grown(l, ends, step, true)
    local size, windows = most(l, after, nextStep), same(l, after, nextStep)
    local n = floor(over / size)
    if n < windows then return skip(l, ends, n), over % size end
    over, ends, step = over - windows * size, skip(l, ends, windows), nextStep
  end
end
