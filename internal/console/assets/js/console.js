// Loaded by every page: actions, the search for jobs, the age of the data, keys, live parts, soft links and times.
import "./actions.js";
import "./find.js";
import "./fresh.js";
import "./keys.js";
import "./live.js";
import "./soft.js";
import "./times.js";
