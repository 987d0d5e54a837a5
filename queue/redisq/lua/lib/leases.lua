-- The lease record of a job (in the hash f), from its first grant, or from when it was scheduled, until it ends.

-- A lease record packs state, attempts, turn, departure or due, fence, the number of the client that has the job, and
-- its bytes as max_bytes counts them; then the last settled fence and its verdict; then its lane, if that has a key;
-- then, if the job failed, the last reason behind 2 bytes of its length, and its timeline (see timeline.lua). Marks are
-- added to the state: KEYED if the job has a lane, IN_FLIGHT if it counts as in flight there.
local LEASE_HEAD = '>BI2I7I7c8I6I2I4'
local LEASE = LEASE_HEAD .. 'c8I6B'
local KEYED, IN_FLIGHT = 64, 128
local CLIENT = 32 -- where the client's number is, 2 before its bytes
local SETTLED = 38 -- where the last settled fence begins
local NOBODY = '00000000' -- the epoch of an absent fence
local NEVER_SETTLED = NOBODY .. string.rep('\0', 7)

local function packLease(f)
  local state, lane = f.state, ''
  if f.lane ~= ZERO then state, lane = state + KEYED, f.lane end
  if f.inFlight then state = state + IN_FLIGHT end
  local failed = ''
  if f.reason ~= '' or (f.timeline or '') ~= '' then
    failed = pack('>I2', #f.reason) .. f.reason .. (f.timeline or '')
  end
  return pack(LEASE, state, f.attempts, f.turn, f.due, f.epoch, f.fence, f.client or 0, f.bytes, f.settledEpoch,
    f.settledFence, f.verdict) .. lane .. failed
end

local function unpackLease(s)
  local f = {}
  local pos
  f.state, f.attempts, f.turn, f.due, f.epoch, f.fence, f.client, f.bytes, f.settledEpoch, f.settledFence, f.verdict,
    pos = unpackStruct(LEASE, s)
  f.lane, f.inFlight = ZERO, f.state >= IN_FLIGHT
  if f.state % IN_FLIGHT >= KEYED then
    f.lane = sub(s, pos, pos + 15)
    pos = pos + 16
  end
  f.state = f.state % KEYED
  f.reason = ''
  if pos < #s then
    local length
    length, pos = unpackStruct('>I2', s, pos)
    f.reason, f.timeline = sub(s, pos, pos + length - 1), sub(s, pos + length)
  end
  return f
end
