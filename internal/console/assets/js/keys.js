// Keys: "/" focuses the page's search field, j and k move through the rows of a list, Enter opens the row, "?" lists the
// keys. Escape, or a click elsewhere, closes an open sheet.
const sheets = "details.menu[open], details.ask[open], details.call[open]";

let searches = false; // the "/" key is down

addEventListener("keydown", (event) => {
	if (event.key === "Escape") {
		const open = [...document.querySelectorAll(sheets)].pop();
		if (open) {
			open.removeAttribute("open");
			open.querySelector("summary").focus();
		}
		return;
	}
	if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, [contenteditable], dialog")) return;
	if (event.key === "j" || event.key === "k") move(event.key === "j" ? 1 : -1);
	if (event.key === "?") document.getElementById("keys").showModal();
	searches = event.key === "/" && document.querySelector("[data-search]");
	if (searches) event.preventDefault(); // Firefox would search the page
});

// On keyup, so that the field does not receive the key.
addEventListener("keyup", (event) => {
	if (!searches || event.key !== "/") return;
	searches = false;
	const search = document.querySelector("[data-search]");
	search.focus();
	search.select();
});

// move focuses the link of the next or the previous row. Enter then opens it, as any link.
function move(by) {
	const links = [...document.querySelectorAll("main [data-key]")].map((row) => row.matches("tr, li") && row.querySelector("a[href]")).filter(Boolean);
	const at = links.findIndex((link) => link.closest("[data-key]").contains(document.activeElement));
	const next = links[at < 0 ? 0 : at + by];
	next?.focus();
	next?.scrollIntoView({ block: "nearest" });
}

addEventListener("click", (event) => {
	for (const open of document.querySelectorAll(sheets)) {
		if (!open.contains(event.target)) open.removeAttribute("open");
	}
});

// Keep an opened sheet within the window.
addEventListener("toggle", ({ target }) => {
	const sheet = target.open && target.querySelector(":scope > .sheet");
	if (!sheet) return;
	sheet.style.translate = "";
	const { left, right } = sheet.getBoundingClientRect();
	const room = document.documentElement.clientWidth - 8;
	const move = left < 8 ? 8 - left : Math.min(0, room - right);
	if (move) sheet.style.translate = `${move}px`;
}, true);
