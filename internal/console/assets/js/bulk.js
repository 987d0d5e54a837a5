// Actions on all jobs of a filter. Each request acts on a part of the jobs and returns the position of the next part.
// A first click only counts the jobs; the second acts on them, with a progress bar.
import { refresh } from "./live.js";
import { say } from "./say.js";

async function request(form, after, dryRun) {
	const body = new URLSearchParams(new FormData(form));
	if (after) body.set("after", after);
	if (dryRun) body.set("dry_run:json", "true");
	const answer = await fetch(form.action, { method: "POST", headers: { Accept: "application/json" }, body });
	const result = await answer.json().catch(() => ({}));
	if (!answer.ok) throw new Error([result.field, result.detail || result.title || answer.statusText].filter(Boolean).join(": "));
	return result;
}

// unchanged returns the number of jobs in an answer that the action left unchanged.
const unchanged = (a) => [a.no_room, a.not_dead, a.broken, a.not_held].reduce((sum, n) => sum + (n ?? 0), 0);

// all repeats the request until no jobs are left or the user closes the sheet. An error includes the number of jobs done.
async function all(form, dryRun, each) {
	let seen = 0;
	let done = 0;
	let after = "";
	do {
		let answer;
		try {
			answer = await request(form, after, dryRun);
		} catch (e) {
			throw dryRun || !done ? e : new Error(`${e.message.replace(/\.$/, "")}. ${count(done)} ${done === 1 ? "was" : "were"} done before the error.`);
		}
		const found = answer.matched ?? answer.purged ?? 0;
		seen += found;
		done += found - unchanged(answer);
		after = answer.next;
		each(seen);
	} while (after && form.closest("details").open);
	return { done, left: seen - done, whole: !after };
}

const count = (n) => `${n.toLocaleString("en")} ${n === 1 ? "job" : "jobs"}`;

// partsOf returns the progress bar and text of a form, and creates them on first use.
function partsOf(form) {
	let parts = form.querySelector(".progress");
	if (!parts) {
		parts = document.createElement("div");
		parts.className = "progress";
		parts.append(document.createElement("progress"), document.createElement("p"));
		form.querySelector(".do").before(parts);
	}
	return parts.children;
}

export async function actOnAll(form) {
	const button = form.querySelector(".do button");
	const [bar, words] = partsOf(form);
	button.dataset.label ??= button.textContent;
	button.disabled = true;
	const counted = Number(form.dataset.counted || 0);
	try {
		if (!counted) {
			bar.removeAttribute("value");
			const { done, whole } = await all(form, true, (n) => { words.textContent = `${count(n)} so far`; });
			bar.value = 0;
			words.textContent = `${count(done)}${whole ? "" : " or more"}`;
			if (done) {
				form.dataset.counted = done;
				button.textContent = `${button.dataset.label}: ${count(done)}`;
			}
			return;
		}
		bar.max = counted;
		const { done, left, whole } = await all(form, false, (n) => {
			bar.value = n;
			words.textContent = `${count(n)} of ${n > counted ? n : counted}`;
		});
		say(`${button.dataset.label}: ${count(done)}${left ? `, ${left.toLocaleString("en")} unchanged` : ""}${whole ? "" : ", stopped"}`);
		reset(form, button);
		if (whole) form.closest("details").removeAttribute("open");
		await refresh();
	} catch (e) {
		reset(form, button);
		words.textContent = "";
		await refresh().catch(() => {}); // some jobs may be done
		say(e.message, true);
	} finally {
		button.disabled = false;
	}
}

function reset(form, button) {
	delete form.dataset.counted;
	button.textContent = button.dataset.label;
}
