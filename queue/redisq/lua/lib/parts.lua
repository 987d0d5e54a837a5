-- Redis makes all functions of a script again at every call. Functions that few calls need are therefore made only when
-- a call meets what they are for, like a queue with lanes: that saves as much time as a small append takes.
--
-- Each table stands for a file beside this one and has the functions that its header gives. It is nil until the part of
-- the script to which the file belongs has been made.

local lanes, laneinfo, lanestate, turns, turnorder, eta, appendjob
local limits, limitchange, groups, groupvisit, membership
local receiver, adapt, expiry, appendrules, visit, grant, outcome, reign, changelog, auditwrite, backlog, refile
local makeroom, batches, learned
