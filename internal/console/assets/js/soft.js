// Links and searches with data-soft update the live parts and the address without leaving the page.
import { refresh } from "./live.js";

let typing; // the timer of an input that does not show yet

function go(url) {
	clearTimeout(typing);
	history.pushState(null, "", url);
	fill();
	return refresh(url);
}

// fill shows the parameters of the address in the forms.
function fill() {
	const at = new URL(location.href).searchParams;
	for (const field of document.querySelectorAll("form[data-soft] input")) field.value = at.get(field.name) || "";
}

addEventListener("click", (event) => {
	const link = event.target.closest("a[data-soft]");
	if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
	event.preventDefault();
	go(link.href);
});

function search(form) {
	const url = new URL(form.action);
	for (const [name, value] of new FormData(form)) if (value) url.searchParams.set(name, value);
	return url.href;
}

addEventListener("submit", (event) => {
	if (!event.target.matches("form[data-soft]")) return;
	event.preventDefault();
	go(search(event.target));
});

addEventListener("input", (event) => {
	const form = event.target.closest("form[data-soft]");
	if (!form) return;
	clearTimeout(typing);
	typing = setTimeout(() => {
		history.replaceState(null, "", search(form));
		refresh();
	}, 150);
});

addEventListener("popstate", () => {
	fill();
	refresh();
});
