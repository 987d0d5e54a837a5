// The picture of a queue: dragging the handle on the slope of the forecast fills in the rate to try. The form then
// updates the page as if the user had typed the rate; see soft.js.
const high = 240; // queueHeight in picture.go
const drawing = () => document.querySelector("#picture .drawing");
const field = document.querySelector(".try input[name=rate]");

// rateOf formats jobs per second as a rate with two or three digits.
function rateOf(perSecond) {
	for (const [unit, of] of [["s", 1], ["m", 60], ["h", 3600], ["d", 86400]]) {
		const n = perSecond * of;
		if (n < 10 && unit !== "d") continue;
		const digits = 10 ** Math.max(0, Math.floor(Math.log10(n)) - 2);
		return `${Math.max(1, Math.round(n / digits) * digits)}/${unit}`;
	}
}

let held = null; // the beginning of the slope, and the scale

// drag moves the handle to the pointer, and fills in the rate of the slope through it.
function drag(event) {
	const plot = document.querySelector("#picture .plot");
	const box = plot.getBoundingClientRect();
	const { from, jobs, start, span, most } = held;
	const least = (from - start) / span * box.width + 8;
	const x = Math.min(Math.max(event.clientX - box.left, least), box.width);
	const low = high * (1 - jobs / most);
	const y = Math.min(Math.max(event.clientY - box.top, 0), low - 1);
	const handle = plot.querySelector(".handle");
	const slope = plot.querySelector(".slope");
	handle?.classList.add("held");
	for (const [name, value] of [["cx", x], ["cy", y]]) handle?.setAttribute(name, value);
	for (const [name, value] of [["x1", least - 8], ["y1", low], ["x2", x], ["y2", y]]) slope?.setAttribute(name, value);
	const seconds = x / box.width * span + start - from;
	const rate = rateOf(((1 - y / high) * most - jobs) / seconds);
	if (field.value === rate) return;
	field.value = rate;
	field.dispatchEvent(new Event("input", { bubbles: true }));
}

if (field) {
	document.body.classList.add("drags");
	addEventListener("pointerdown", (event) => {
		if (!event.target.matches?.("#picture .handle") || event.button) return;
		event.preventDefault();
		held = Object.fromEntries(Object.entries(event.target.dataset).map(([name, value]) => [name, Number(value)]));
		drawing().setPointerCapture(event.pointerId);
	});
	addEventListener("pointermove", (event) => { if (held) drag(event); });
	for (const end of ["pointerup", "pointercancel"]) {
		addEventListener(end, () => {
			held = null;
			document.querySelector("#picture .handle.held")?.classList.remove("held");
			const slope = document.querySelector("#picture .slope");
			for (const name of ["x1", "y1", "x2", "y2"]) slope?.removeAttribute(name);
		});
	}
}
