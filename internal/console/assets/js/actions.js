// Buttons: a form with data-action is sent to the API, and the page then shows what came of it.
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
		say("The server does not answer. It may or may not have been done: look before you try again.", true);
	} finally {
		button.disabled = false;
	}
}

addEventListener("submit", (event) => {
	const form = event.target;
	if (!form.dataset.action || form.elements._show) return; // an answer that is shown is a page
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
		say("The browser did not let it be copied: select the text.", true);
	}
});
