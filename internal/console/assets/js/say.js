// say shows a message at the bottom of the page for a few seconds.
let end;
export function say(text, bad = false) {
	const place = document.getElementById("said");
	place.textContent = text;
	place.classList.toggle("bad", bad);
	clearTimeout(end);
	end = setTimeout(() => { place.textContent = ""; }, bad ? 10000 : 3000);
}
