// What every page has: forms that act without leaving the page, live parts, times that count, keys, copying.
import "./actions.js";
import "./keys.js";
import "./live.js";
import "./soft.js";
import "./times.js";
