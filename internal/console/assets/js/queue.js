// The charts of a queue: jobs per second, jobs in the queue, and the rate. The charts share a time axis and a cursor.
import { say } from "./say.js";
import { clock } from "./times.js";
import "./picture.js";

const box = document.querySelector("[data-history]");
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const number = (v) => (v == null ? "–" : v.toLocaleString("en", { maximumFractionDigits: v < 10 ? 2 : 0 }));

const charts = [
	{ title: "Jobs per second", lines: [["in", "in", "--edge"], ["out", "out", "--accent"], ["refused", "refused", "--bad"]] },
	{ title: "Jobs in queue", lines: [["depth", "in queue", "--accent"], ["deferred", "deferred", "--edge"]] },
	{ title: "Rate per second", lines: [["outflow", "actual", "--accent"], ["rate", "limit", "--good"]] },
];

let plots = [];

function dataOf(chart, history) {
	const begin = Date.parse(history.from) / 1000;
	const lines = chart.lines.filter(([column]) => history.values[column]);
	const n = Math.max(0, ...lines.map(([column]) => history.values[column].length));
	const times = Array.from({ length: n }, (_, i) => begin + i * history.step);
	return { lines, data: [times, ...lines.map(([column]) => history.values[column])] };
}

function draw(history) {
	for (const plot of plots) plot.destroy();
	box.replaceChildren();
	plots = charts.map((chart) => {
		const { lines, data } = dataOf(chart, history);
		const figure = document.createElement("figure");
		const caption = document.createElement("figcaption");
		caption.textContent = chart.title;
		figure.append(caption);
		box.append(figure);
		const axis = { stroke: ink("--muted"), grid: { stroke: ink("--line"), width: 1 }, ticks: { show: false }, font: `11px ${ink("--font")}` };
		const hours = (t) => clock(t * 1000).slice(0, 5);
		const plot = new uPlot({
			width: figure.clientWidth, height: 160, cursor: { sync: { key: "queue" }, drag: { x: false, y: false } },
			tzDate: (t) => uPlot.tzDate(new Date(t * 1000), "Etc/UTC"),
			scales: { y: { range: (_, low, high) => [0, Math.max(high || 0, 1) * 1.05] } },
			axes: [{ ...axis, values: (_, ticks) => ticks.map(hours) }, { ...axis, size: 48, values: (_, ticks) => ticks.map(number) }],
			series: [{ label: "at", value: (_, v) => (v == null ? "–" : clock(v * 1000)) }, ...lines.map(([, label, color]) => ({
				label, stroke: ink(color), width: 1.5, points: { show: false }, value: (_, v) => number(v),
			}))],
		}, data, figure);
		plot.of = chart;
		return plot;
	});
}

let failed = false;
async function load(again) {
	try {
		const answer = await fetch(box.dataset.history);
		if (!answer.ok) throw new Error((await answer.json()).detail);
		const history = await answer.json();
		failed = false;
		if (again && plots.length) for (const plot of plots) plot.setData(dataOf(plot.of, history).data);
		else draw(history);
	} catch (e) {
		if (!failed) say(`Cannot draw the charts: ${e.message}`, true);
		failed = true;
	}
}

if (box) {
	await load(false);
	setInterval(() => { if (!document.hidden) load(true); }, 5000);
	new ResizeObserver(() => {
		for (const plot of plots) plot.setSize({ width: plot.root.parentElement.clientWidth, height: 160 });
	}).observe(box);
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => load(false));
}
