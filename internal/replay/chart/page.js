"use strict";
(() => {
	const number = new Intl.NumberFormat("en-US");
	const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
	const stepped = uPlot.paths.stepped({ align: 1 });
	const font = "12px system-ui, sans-serif";
	const height = 238; // of the plot, without the legend below it
	const whole = (u, splits) => splits.map((v) => (Number.isInteger(v) ? number.format(v) : ""));

	// instants labels the time axis in UTC, with days, minutes or seconds depending on the distance.
	const instants = (u, splits, axis, space, apart) => {
		let day = "";
		return splits.map((at) => {
			const iso = new Date(at * 1e3).toISOString();
			const before = day;
			day = iso.slice(0, 10);
			const time = iso.slice(11, apart < 1 ? 23 : apart < 60 ? 19 : 16);
			return apart >= 86400 ? day : day === before ? time : time + "\n" + day;
		});
	};
	const utc = (u, at) => (at === null ? "--" : new Date(at * 1e3).toISOString().replace("T", " ").replace(/\.000Z|Z$/, ""));

	// draw plots a panel in place, at its full width.
	const draw = (panel, place) => {
		const axis = { stroke: color("--faint"), grid: { stroke: color("--grid"), width: 1 }, ticks: { stroke: color("--grid") }, font };
		const plot = new uPlot(
			{
				width: place.clientWidth,
				height,
				tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
				cursor: { sync: { key: "time" } },
				scales: { y: { range: (u, min, max) => [0, Math.max(1, max * 1.05)] } },
				axes: [{ ...axis, values: instants, space: 90 }, { ...axis, values: whole, size: 70, label: panel.unit, labelFont: font, labelSize: 18 }],
				series: [{ label: "UTC", value: utc }].concat(
					panel.series.map((s) => ({
						label: s.name,
						stroke: s.color,
						width: 1.5,
						paths: stepped,
						points: { show: false },
						value: (u, v) => (v === null ? "" : number.format(v)),
					})),
				),
			},
			// The last value holds until the last instant.
			[report.times].concat(panel.series.map((s) => s.values.concat(s.values.slice(-1)))),
			place,
		);
		new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height })).observe(place);
		return plot;
	};

	const places = document.querySelectorAll(".panel");
	let plots = report.panels.map((panel, i) => draw(panel, places[i]));
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
		plots.forEach((plot) => plot.destroy());
		plots = report.panels.map((panel, i) => draw(panel, places[i]));
	});
})();
