// How fresh the page is: #fresh shows the time of its data. After 5 s without an answer it says so, and the style sheet
// grays out the values.
import { clock } from "./times.js";
import { say } from "./say.js";

const patience = 5000;
const place = document.getElementById("fresh");
let waiting = 0; // since when a request has no answer; 0 if none waits

// asked notes that a request was sent.
export function asked() {
	waiting ||= Date.now();
}

// answered notes that the server answered, with data as of an instant.
export function answered(iso) {
	waiting = 0;
	if (place && iso) place.dataset.asOf = iso;
	show();
}

export const isAway = () => document.body.classList.contains("away");

function show() {
	const silent = waiting ? Date.now() - waiting : 0;
	const away = silent >= patience;
	if (away !== isAway()) {
		document.body.classList.toggle("away", away);
		if (away) say("The server does not answer. This page is out of date; it updates when the server is back.", true);
		else say("The server is back.");
	}
	if (!place) return;
	const text = `${away ? `No answer for ${Math.floor(silent / 1000)} s. ` : ""}Data from ${clock(place.dataset.asOf)}`;
	if (place.textContent !== text) place.textContent = text;
}

show();
setInterval(show, 1000);
