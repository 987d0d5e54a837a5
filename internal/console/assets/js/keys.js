// Keys: "/" goes to the search field of the page, Escape closes what is open. A click elsewhere closes it too.
const sheets = "details.menu[open], details.ask[open], details.call[open]";

addEventListener("keydown", (event) => {
	if (event.key === "Escape") {
		const open = [...document.querySelectorAll(sheets)].pop();
		if (open) {
			open.removeAttribute("open");
			open.querySelector("summary").focus();
		}
		return;
	}
	const typing = event.target.closest("input, textarea, select, [contenteditable]");
	if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
		const search = document.querySelector("[data-search]");
		if (search) {
			event.preventDefault();
			search.focus();
			search.select();
		}
	}
});

addEventListener("click", (event) => {
	for (const open of document.querySelectorAll(sheets)) {
		if (!open.contains(event.target)) open.removeAttribute("open");
	}
});
