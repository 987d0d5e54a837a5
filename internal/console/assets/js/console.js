// Loaded by every page: actions, keys, live parts, soft links and relative times.
import "./actions.js";
import "./keys.js";
import "./live.js";
import "./soft.js";
import "./times.js";
