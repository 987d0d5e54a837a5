// Loaded by every page: actions, the age of the data, keys, live parts, soft links and relative times.
import "./actions.js";
import "./fresh.js";
import "./keys.js";
import "./live.js";
import "./soft.js";
import "./times.js";
