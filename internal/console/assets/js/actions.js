// Buttons: sends a form with data-action to the API and refreshes the page.
import { refresh } from "./live.js";
import { say } from "./say.js";
import { actOnAll } from "./bulk.js";

async function act(form, button) {
	button.disabled = true;
	try {
		const answer = await fetch(form.action, {
			method: "POST", headers: { Accept: "application/json" }, body: new URLSearchParams(new FormData(form)),
		});
		if (answer.status === 401) return location.reload();
		if (!answer.ok) {
			const problem = await answer.json().catch(() => ({}));
			return say([problem.field, problem.detail || problem.title || answer.statusText].filter(Boolean).join(": "), true);
		}
		say(`${button.textContent.trim()}: done`);
		form.closest("details")?.removeAttribute("open");
		const next = form.elements._next.value;
		if (new URL(next, location).pathname !== location.pathname) location.assign(next);
		else await refresh();
	} catch {
		say("The server does not answer. The action may have been done: check before you retry.", true);
	} finally {
		button.disabled = false;
	}
}

addEventListener("submit", (event) => {
	const form = event.target;
	if (!form.dataset.action || form.elements._show) return; // the server shows the answer on a page
	event.preventDefault();
	if ("bulk" in form.dataset) return actOnAll(form);
	act(form, event.submitter || form.querySelector("button"));
});

addEventListener("click", async (event) => {
	const button = event.target.closest("[data-copy]");
	if (!button) return;
	try {
		await navigator.clipboard.writeText(button.dataset.copy);
		say("Copied");
	} catch {
		say("The browser refused to copy. Select the text instead.", true);
	}
});
