"use strict";
(() => {
	const number = new Intl.NumberFormat("en-US");
	const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
	const stepped = uPlot.paths.stepped({ align: 1 });
	const font = "12px system-ui, sans-serif";
	const height = 238; // of the plot; its legend stands below
	const whole = (u, splits) => splits.map((v) => (Number.isInteger(v) ? number.format(v) : ""));

	// instants are the labels of the time axis, in UTC: of days, minutes or seconds, as far as they lie apart.
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

	// draw makes the plot of a panel in its place, as wide as that is.
	const draw = (panel, place) => {
		const axis = { stroke: colour("--faint"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid") }, font };
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
						stroke: s.colour,
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
