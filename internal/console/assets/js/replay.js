// The replay page: sends the form without leaving the page, so that the user can try other rules on the same log.
// A file dropped anywhere on the page fills the form.
import { say } from "./say.js";

const form = document.querySelector("[data-replay]");
const log = form.elements.log;
const area = log.closest(".drop");
const button = form.querySelector(".do button");

for (const kind of ["dragover", "drop"]) {
	addEventListener(kind, (event) => {
		if (!event.dataTransfer?.types.includes("Files")) return;
		event.preventDefault(); // the browser would open the file
		area.classList.toggle("over", kind === "dragover");
		if (kind === "drop") log.files = event.dataTransfer.files;
	});
}
addEventListener("dragleave", (event) => { if (!event.relatedTarget) area.classList.remove("over"); });

form.addEventListener("submit", async (event) => {
	event.preventDefault();
	if (log.files[0]?.size > Number(form.dataset.replay)) {
		return say("This log is longer than 64 MiB. Replay it on the command line: penstock replay --log FILE", true);
	}
	button.disabled = true;
	say("Replaying…");
	try {
		const answer = await fetch(form.action, { method: "POST", body: new FormData(form) });
		if (answer.redirected) return location.assign(answer.url); // signed out
		const page = new DOMParser().parseFromString(await answer.text(), "text/html");
		const now = page.getElementById("outcome");
		if (!now) return say(page.querySelector("main")?.textContent.trim().replace(/\s+/g, " ") || answer.statusText, true);
		const outcome = document.getElementById("outcome");
		outcome.replaceWith(document.importNode(now, true));
		document.getElementById("outcome").focus();
		say(now.querySelector(".wrong") ? "" : "Replayed");
	} catch {
		say("Cannot send the log. The server does not answer, or the file has changed since you chose it.", true);
	} finally {
		button.disabled = false;
	}
});
