// Buttons: sends a form with data-action to the API and refreshes the page.
import { refresh } from "./live.js";
import { say } from "./say.js";
import { actOnAll } from "./bulk.js";

async function act(form, button) {
	button.disabled = true;
	try {
		const answer = await fetch(form.action, {
			method: "POST", headers: { Accept: form.elements._show ? "text/html" : "application/json" }, body: new URLSearchParams(new FormData(form)),
		});
		if (answer.status === 401) return location.reload();
		if (!answer.ok) {
			const problem = await problemOf(answer);
			return say([problem.field, problem.detail || problem.title || answer.statusText].filter(Boolean).join(": "), true);
		}
		if (form.elements._show) return show(await answer.text());
		say(`${button.textContent.trim()}: done`);
		form.closest("details")?.removeAttribute("open");
		const next = form.elements._next.value;
		if ("reload" in form.dataset || new URL(next, location).pathname !== location.pathname) location.assign(next);
		else await refresh();
	} catch {
		say("The server does not answer. The action may have been done: check before you retry.", true);
	} finally {
		button.disabled = false;
	}
}

// problemOf returns the problem in a refusal: JSON, or a page.
async function problemOf(answer) {
	const text = await answer.text();
	if (!(answer.headers.get("Content-Type") || "").startsWith("text/html")) {
		try {
			return JSON.parse(text);
		} catch {
			return {};
		}
	}
	const page = new DOMParser().parseFromString(text, "text/html");
	return { detail: (page.getElementById("detail") ?? page.querySelector("h1"))?.textContent.trim() };
}

// show replaces the page by an answer: a new token, which is not shown again. Until then, the form keeps its input.
function show(text) {
	const page = new DOMParser().parseFromString(text, "text/html");
	const main = document.getElementById("main");
	main.replaceChildren(...page.getElementById("main").childNodes);
	main.focus();
	scrollTo(0, 0);
}

addEventListener("submit", (event) => {
	const form = event.target;
	if (!form.dataset.action) return;
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
