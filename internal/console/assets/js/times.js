// Relative times: <time data-until="INSTANT"> shows the time left, data-since the time passed. They follow the server's
// clock, because the browser's may be wrong.
let ahead = 0; // browser's clock minus the server's, in ms

// setNow sets the server's time at the instant `at` of the browser's clock.
export function setNow(iso, at = Date.now()) {
	const now = Date.parse(iso);
	if (!Number.isNaN(now)) ahead = at - now;
}

export const now = () => Date.now() - ahead;

// span formats a duration as span in funcs.go does.
export function span(ms) {
	let s = Math.max(0, Math.round(ms / 1000));
	const parts = [];
	for (const [name, of] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
		if (s < of && name !== "s") {
			if (parts.length) break;
			continue;
		}
		const n = Math.floor(s / of);
		if (n || !parts.length) parts.push(`${n} ${name}`);
		s -= n * of;
		if (parts.length === 2) break;
	}
	return parts.join(" ");
}

// clock formats an instant as the clock in funcs.go does. All pages show UTC.
export function clock(at) {
	return `${new Date(at).toISOString().slice(11, 19)} UTC`;
}

export function tick() {
	for (const time of document.querySelectorAll("time[data-until], time[data-since]")) {
		const { until, since } = time.dataset;
		const text = span(until ? Date.parse(until) - now() : now() - Date.parse(since));
		if (time.textContent !== text) time.textContent = text;
	}
}

setNow(
	document.body.dataset.now,
	performance.timeOrigin + (performance.getEntriesByType("navigation")[0]?.responseStart || performance.now()),
);
tick();
setInterval(tick, 1000);
