-- The run of the server.

-- runId returns the run of the server. A server that was restarted, or took over from its master, may have lost its
-- last writes, so the run is the epoch of fences and buckets. runSince is when a run was first seen; 0 in the run in
-- which the store was made.
local function runId() return sub(string.match(call('INFO', 'server'), 'run_id:(%x+)'), 1, 8) end

local function checkRun()
  local run = runId()
  if run ~= M.run then M.run, M.runSince = run, now end
end
