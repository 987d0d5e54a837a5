// Ctrl-K, or Command-K, opens a search for jobs on every page. Only users who may search have its link.
let box;

function create(link) {
	box = document.createElement("dialog");
	box.className = "seek";
	box.setAttribute("aria-label", "Find a job");
	const form = document.createElement("form");
	form.method = "get";
	form.action = link.href;
	form.role = "search";
	const input = document.createElement("input");
	Object.assign(input, { name: "id", type: "search", required: true, placeholder: "Find a job by its id", autocomplete: "off", spellcheck: false });
	input.setAttribute("aria-label", "Id of the job, or its beginning");
	const button = document.createElement("button");
	button.className = "button";
	button.textContent = "Find";
	form.append(input, button);
	box.append(form);
	box.addEventListener("click", (event) => event.target === box && box.close());
	document.body.append(box);
}

addEventListener("keydown", (event) => {
	if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
	const link = document.querySelector('.nav a[href$="/find"]');
	if (!link) return;
	event.preventDefault(); // browsers use this key too
	if (!box) create(link);
	if (!box.open) box.showModal();
	box.querySelector("input").select();
});
