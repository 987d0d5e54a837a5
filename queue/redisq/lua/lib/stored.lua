-- What scripts read of a job in place, from what is stored under its key (see job.lua).

-- bytesOf returns what a job takes of its queue's max_bytes, by the length of what is stored.
local function bytesOf(id, stored) return #id + stored - BEFORE_RECORD + JOB_BYTES end

local function timeAt(job) return (unpackStruct('>I7', job, 2)) end
local function costOf(job)
  local high, low = byte(job, 25, 26)
  return high * 256 + low
end

-- expiresAt returns when a job expires, by its record, with its flags at that byte of s.
local function expiresAt(s, flags)
  return byte(s, flags) % (2 * EXPIRES) >= EXPIRES and unpackStruct('>I7', s, flags + 1) or math.huge
end
