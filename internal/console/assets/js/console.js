// Loaded by every page: actions, the search for jobs, keys, live parts, soft links and relative times.
import "./actions.js";
import "./find.js";
import "./keys.js";
import "./live.js";
import "./soft.js";
import "./times.js";
