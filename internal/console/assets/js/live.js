// Live parts: keeps elements with an id and data-live up to date. It fetches the page again and changes only the
// differences: nothing jumps, the focus stays, and open sheets stay open.
import { setNow, tick } from "./times.js";
import { answered, asked, isAway } from "./fresh.js";

const kept = { DETAILS: ["open"], INPUT: ["value"] }; // attributes that the user controls

function sameKind(a, b) {
	return a.nodeType === b.nodeType && a.nodeName === b.nodeName &&
		(a.nodeType !== 1 || (a.dataset?.key ?? "") === (b.dataset?.key ?? ""));
}

// morph changes the node old to match now.
export function morph(old, now) {
	if (old.nodeType !== 1) {
		if (old.data !== now.data) old.data = now.data;
		return;
	}
	if (old.dataset.until || old.dataset.since) { // times.js updates the text
		for (const name of ["until", "since"]) if (now.dataset[name]) old.dataset[name] = now.dataset[name];
		return;
	}
	const own = old.type === "hidden" ? [] : kept[old.nodeName] || [];
	for (const { name, value } of [...now.attributes]) {
		if (!own.includes(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
	}
	for (const { name } of [...old.attributes]) {
		if (!own.includes(name) && !now.hasAttribute(name)) old.removeAttribute(name);
	}
	morphChildren(old, now);
}

function morphChildren(old, now) {
	const byKey = new Map();
	for (const child of old.children) if (child.dataset?.key) byKey.set(child.dataset.key, child);
	let at = old.firstChild;
	for (let want = now.firstChild; want; ) {
		const next = want.nextSibling;
		const known = want.nodeType === 1 && want.dataset?.key && byKey.get(want.dataset.key);
		if (known && known !== at) old.insertBefore(known, at);
		const here = known || at;
		if (here && sameKind(here, want)) {
			morph(here, want);
			at = here.nextSibling;
		} else {
			old.insertBefore(document.importNode(want, true), at);
		}
		want = next;
	}
	while (at) {
		const next = at.nextSibling;
		at.remove();
		at = next;
	}
}

let number = 0;

const longest = 10000; // ms to wait for an answer before the next request

// refresh updates the live parts from url.
export async function refresh(url = location.href) {
	const mine = ++number;
	let answer, text;
	asked();
	try {
		answer = await fetch(url, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(longest) });
		text = await answer.text();
	} catch {
		answer = null;
	}
	if (mine !== number) return; // a later refresh has begun
	if (!answer || answer.status >= 500 || answer.status === 429) return; // the request still counts as unanswered
	if (answer.redirected && new URL(answer.url).pathname.endsWith("/sign-in")) return location.reload();
	if (answer.status >= 400 && url === location.href && document.querySelector("[data-live]")) return location.reload(); // the object is gone
	const page = new DOMParser().parseFromString(text, "text/html");
	setNow(page.body.dataset.now);
	answered(page.getElementById("fresh")?.dataset.asOf);
	for (const part of document.querySelectorAll("[data-live][id]")) {
		const now = page.getElementById(part.id);
		if (now && !part.contains(part.ownerDocument.activeElement?.closest("input, textarea"))) morph(part, now);
	}
	tick();
	dispatchEvent(new CustomEvent("refreshed", { detail: page }));
}

let last = Date.now(); // start of the last refresh
let timer;
let due = Infinity;

// soon schedules a refresh `after` ms after the last one, so that many events cause one refresh.
function soon(after) {
	const at = Math.max(Date.now() + 50, last + after);
	if (at >= due) return;
	due = at;
	clearTimeout(timer);
	timer = setTimeout(async () => {
		due = Infinity;
		last = Date.now();
		if (!document.hidden) await refresh();
		again();
	}, at - Date.now());
}

// data-every of a live part is the refresh interval in ms. While the page follows events, it refreshes less often: the
// events announce changes. A hidden page is not refreshed.
const every = Number(document.querySelector("[data-live][data-every]")?.dataset.every || 0);
const again = () => every && soon(isAway() ? 2000 : stream?.readyState === EventSource.OPEN ? Math.max(every, 10000) : every);

// Events that cause a refresh; see GET /v1/events. Changes of figures can wait for the next interval.
const kinds = ["deleted", "created", "changed", "paused", "resumed", "stopped", "continued", "full", "room", "state", "end"];
let stream;
let followed = "";

// follow keeps an event stream open while the page is visible; data-events of a live part is its URL. Browsers allow
// few connections per server, so hidden pages close their stream.
function follow() {
	const want = (!document.hidden && document.querySelector("[data-live][data-events]")?.dataset.events) || "";
	if (want === followed && stream?.readyState !== EventSource.CLOSED) return;
	stream?.close();
	followed = want;
	stream = want ? new EventSource(want) : undefined;
	for (const kind of kinds) stream?.addEventListener(kind, () => soon(250));
	stream?.addEventListener("info", () => soon(2000));
	stream?.addEventListener("error", () => soon(2000));
}

if (every) {
	follow();
	again();
	addEventListener("refreshed", follow);
	addEventListener("visibilitychange", () => {
		follow();
		if (!document.hidden) soon(0);
	});
}
