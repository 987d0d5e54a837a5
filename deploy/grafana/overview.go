package grafana

var overview = Dashboard{
	Name: "overview", Title: "Overview",
	About: "All queues: what is moving, which of them does not move, and how much of their rates is used.",
	Rows: []Row{
		{Height: 4, Panels: []Panel{
			{
				Title: "Queues", Kind: Number, Width: 4, Unit: Count,
				About:   "How many queues there are.",
				Queries: one(`max(penstock_queues)`, "queues"),
			},
			{
				Title: "Drainers", Kind: Number, Width: 4, Unit: Count, BadBelow: 1,
				About:   "Drainers that asked the store for jobs in the last 10 s; without one nothing is delivered.",
				Queries: one(`max(penstock_drainers)`, "drainers"),
			},
			{
				Title: "In", Kind: Number, Width: 4, Unit: Rate,
				About: "Jobs accepted into their queues, a second.",
				Queries: one(
					`sum(queue_outcome:penstock_appended:rate5m{outcome="accepted"})`, "in",
				),
			},
			{
				Title: "Out", Kind: Number, Width: 4, Unit: Rate,
				About:   "Jobs that left their queues, a second, over the last 10 to 20 s.",
				Queries: one(`sum(queue:penstock_outflow_per_second:max)`, "out"),
			},
			{
				Title: "Refused", Kind: Number, Width: 4, Unit: Rate, Warn: 0.01,
				About:   "Jobs not accepted, a second, for any reason.",
				Queries: one(`sum(queue_reason:penstock_refused:rate5m)`, "refused"),
			},
			{
				Title: "Waiting", Kind: Number, Width: 4, Unit: Count,
				About:   "Jobs that wait for their departure, of all queues.",
				Queries: one(`sum(queue_state:penstock_jobs:max{state="waiting"})`, "waiting"),
			},
		}},
		{Title: "What is moving", Height: 8, Panels: []Panel{
			{
				Title: "In and out", Kind: Chart, Width: 8, Unit: Rate,
				About: "What comes in by what becomes of it, and what goes out; where in stays above out, queues fill.",
				Queries: []Query{
					{Expr: `sum by (outcome) (queue_outcome:penstock_appended:rate5m)`, Legend: "in: {{outcome}}"},
					{Expr: `sum(queue:penstock_outflow_per_second:max)`, Legend: "out"},
				},
			},
			{
				Title: "Deliveries", Kind: Chart, Width: 8, Unit: Rate, Stacked: true,
				About:   "What became of what drainers started; retry and dead are failures, released was given back.",
				Queries: one(`sum by (outcome) (queue_outcome:penstock_deliveries:rate5m)`, "{{outcome}}"),
			},
			{
				Title: "Jobs", Kind: Chart, Width: 8, Unit: Count, Stacked: true,
				About:   "All jobs by state; dead and held ones wait for a person.",
				Queries: one(`sum by (state) (queue_state:penstock_jobs:max)`, "{{state}}"),
			},
		}},
		{Title: "Why does this not move", Height: 9, Panels: []Panel{
			{
				Title: "Queues by what they do", Kind: Chart, Width: 12, Unit: Count, Stacked: true,
				About: "Every queue counts, also where there are too many for series of their own; idle ones are left out.",
				Queries: one(
					`max by (state) (penstock_queues_in_state{state!="idle"})`, "{{state}}",
				),
			},
			{
				Title: "Stopped, stalled or without workers", Kind: Table, Width: 12, Unit: Count,
				About: "Queues that hold jobs of which none leaves, with the reason.",
				Queries: quiet(
					`max by (queue, state) (penstock_queue_state{`+
						`state=~"paused|parent_paused|no_target|no_drainer|no_worker|circuit_open|throttled|quota|stalled"})`,
					"", "a queue has a state of these only while it stands still; there is none otherwise",
				),
			},
		}},
		{Height: 8, Panels: []Panel{
			{
				Title: "Refused, by reason", Kind: Chart, Width: 6, Unit: Rate, Stacked: true,
				About:   "Why jobs are not accepted: full asks for more rate, invalid and conflict are the producer's to mend.",
				Queries: one(`sum by (reason) (queue_reason:penstock_refused:rate5m)`, "{{reason}}"),
			},
			{
				Title: "Fullest", Kind: Bars, Width: 6, Unit: Share, Warn: 0.8, Bad: 1,
				About: "The share of its capacity that a queue holds; at 100% it refuses or defers.",
				Queries: one(
					`topk(10, sum by (queue) (queue_state:penstock_jobs:max{state=~"waiting|scheduled|leased|held"})`+
						` / on (queue) max by (queue) (penstock_queue_capacity))`,
					"{{queue}}",
				),
			},
			{
				Title: "Longest wait", Kind: Bars, Width: 6, Unit: Seconds,
				About: "Age of the job at the head, of the ten queues where it is highest.",
				Queries: one(
					`topk(10, queue:penstock_oldest_waiting_seconds:max)`, "{{queue}}",
				),
			},
			{
				Title: "Departures lost", Kind: Bars, Width: 6, Unit: Rate,
				About: "Departures that backlogged queues could have had: too few drainers or handlers, or slow round trips.",
				Queries: quiet(
					`topk(10, queue:penstock_lost_slots:rate5m)`, "{{queue}}",
					"a queue counts departures lost from the first on; "+fromFirst,
				),
			},
		}},
		{Title: "What happens if I change that", Height: 9, Panels: []Panel{
			{
				Title: "Use of the rate", Kind: Bars, Width: 12, Unit: Share, Warn: 0.9,
				About: "The share of its rate that a queue uses; near 100% only a higher rate lets more out.",
				Queries: one(
					`topk(10, queue:penstock_outflow_per_second:max / (queue:penstock_queue_rate:max < Inf))`, "{{queue}}",
				),
			},
			{
				Title: "Time until the backlog is gone", Kind: Bars, Width: 12, Unit: Seconds,
				About: "What waits divided by the rate, if nothing more comes in; twice the rate halves it.",
				Queries: one(
					`topk(10, sum by (queue) (queue_state:penstock_jobs:max{state="waiting"})`+
						` / queue:penstock_queue_rate:max)`,
					"{{queue}}",
				),
			},
		}},
	},
}
