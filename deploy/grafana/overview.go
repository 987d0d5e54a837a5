package grafana

var overview = Dashboard{
	Name: "overview", Title: "Overview", Picks: []Pick{byTeam},
	About: "All queues: what is moving, which queues do not move, and how much of their rates they use.",
	Rows: []Row{
		{Height: 4, Panels: []Panel{
			{
				Title: "Queues", Kind: Number, Width: 4, Unit: Count,
				About:   "Number of queues.",
				Queries: one(`max(penstock_queues)`, "queues"),
			},
			{
				Title: "Drainers", Kind: Number, Width: 4, Unit: Count, BadBelow: 1,
				About:   "Drainers that asked the store for jobs in the last 10 s; without a drainer nothing is delivered.",
				Queries: one(`max(penstock_drainers)`, "drainers"),
			},
			{
				Title: "In", Kind: Number, Width: 4, Unit: Rate,
				About: "Jobs accepted per second.",
				Queries: one(
					`sum(queue_outcome:penstock_appended:rate5m{`+ofTeam+`,outcome="accepted"})`, "in",
				),
			},
			{
				Title: "Out", Kind: Number, Width: 4, Unit: Rate,
				About:   "Departures per second over the last 10 to 20 s.",
				Queries: one(`sum(queue:penstock_outflow_per_second:max{`+ofTeam+`})`, "out"),
			},
			{
				Title: "Refused", Kind: Number, Width: 4, Unit: Rate, Warn: 0.01,
				About:   "Jobs refused per second, for any reason.",
				Queries: one(`sum(queue_reason:penstock_refused:rate5m{`+ofTeam+`})`, "refused"),
			},
			{
				Title: "Waiting", Kind: Number, Width: 4, Unit: Count,
				About:   "Jobs of all queues that wait for their departure.",
				Queries: one(`sum(queue_state:penstock_jobs:max{`+ofTeam+`,state="waiting"})`, "waiting"),
			},
		}},
		{Title: "What is moving", Height: 8, Panels: []Panel{
			{
				Title: "In and out", Kind: Chart, Width: 8, Unit: Rate,
				About: "Appended jobs by outcome, and departures; if more jobs enter than leave, queues fill.",
				Queries: []Query{
					{Expr: `sum by (outcome) (queue_outcome:penstock_appended:rate5m{` + ofTeam + `})`, Legend: "in: {{outcome}}"},
					{Expr: `sum(queue:penstock_outflow_per_second:max{` + ofTeam + `})`, Legend: "out"},
				},
			},
			{
				Title: "Deliveries", Kind: Chart, Width: 8, Unit: Rate, Stacked: true,
				About:   "Started jobs by outcome; retry and dead are failures, released jobs were returned.",
				Queries: one(`sum by (outcome) (queue_outcome:penstock_deliveries:rate5m{`+ofTeam+`})`, "{{outcome}}"),
			},
			{
				Title: "Jobs", Kind: Chart, Width: 8, Unit: Count, Stacked: true,
				About:   "All jobs by state; held jobs need a decision.",
				Queries: one(`sum by (state) (queue_state:penstock_jobs:max{`+ofTeam+`})`, "{{state}}"),
			},
		}},
		{Title: "Why does this not move", Height: 9, Panels: []Panel{
			{
				Title: "Queues by state", Kind: Chart, Width: 8, Unit: Count, Stacked: true,
				About: "All queues except idle ones, including queues without series of their own.",
				Queries: one(
					`max by (state) (penstock_queues_in_state{state!="idle"})`, "{{state}}",
				),
			},
			{
				Title: "Stopped, stalled or without workers", Kind: Table, Width: 8, Unit: Count,
				About: "Queues whose jobs do not leave, with the reason.",
				Queries: quiet(
					`max by (queue, state) (penstock_queue_state{`+ofTeam+`,`+
						`state=~"paused|parent_paused|no_target|no_drainer|no_worker|circuit_open|throttled|quota|stalled"})`,
					"", "no series unless a queue is stopped",
				),
			},
			{
				Title: "Dead and held", Kind: Bars, Width: 8, Unit: Count, Warn: 1,
				About: "Dead jobs can be replayed, held jobs need a decision: the ten queues with the most.",
				Queries: quiet(
					`topk(10, queue_state:penstock_jobs:max{`+ofTeam+`,state=~"dead|held"} > 0)`, "{{queue}} {{state}}",
					"no series unless jobs are dead or held",
				),
			},
		}},
		{Height: 8, Panels: []Panel{
			{
				Title: "Refused, by reason", Kind: Chart, Width: 6, Unit: Rate, Stacked: true,
				About:   "Refusals by reason: full calls for a higher rate, invalid and conflict for a fix in the producer.",
				Queries: one(`sum by (reason) (queue_reason:penstock_refused:rate5m{`+ofTeam+`})`, "{{reason}}"),
			},
			{
				Title: "Fullest", Kind: Bars, Width: 6, Unit: Share, Warn: 0.8, Bad: 1,
				About: "Share of a queue's capacity in use; at 100% it refuses or defers jobs.",
				Queries: one(
					`topk(10, sum by (queue) (queue_state:penstock_jobs:max{`+ofTeam+`,state=~"waiting|scheduled|leased|held"})`+
						` / on (queue) max by (queue) (penstock_queue_capacity{`+ofTeam+`}))`,
					"{{queue}}",
				),
			},
			{
				Title: "Longest wait", Kind: Bars, Width: 6, Unit: Seconds,
				About: "Age of the job at the head, for the ten queues with the oldest.",
				Queries: one(
					`topk(10, queue:penstock_oldest_waiting_seconds:max{`+ofTeam+`})`, "{{queue}}",
				),
			},
			{
				Title: "Lost departures", Kind: Bars, Width: 6, Unit: Rate,
				About: "Departures that queues missed while jobs waited: too few drainers or handlers, or slow round trips.",
				Queries: quiet(
					`topk(10, queue:penstock_lost_slots:rate5m{`+ofTeam+`})`, "{{queue}}",
					fromFirst,
				),
			},
		}},
		{Title: "What happens if I change that", Height: 9, Panels: []Panel{
			{
				Title: "Use of the rate", Kind: Bars, Width: 8, Unit: Share, Warn: 0.9,
				About: "Share of its rate that a queue uses; near 100%, only a higher rate lets out more jobs.",
				Queries: one(
					`topk(10, queue:penstock_outflow_per_second:max{`+ofTeam+`} / (queue:penstock_queue_rate:max < Inf))`,
					"{{queue}}",
				),
			},
			{
				Title: "Finish", Kind: Bars, Width: 8, Unit: Seconds,
				About:   "Time until the last job has left if no jobs are added: the ten latest; +Inf is never.",
				Queries: one(`topk(10, queue:penstock_queue_drain_seconds:max{`+ofTeam+`})`, "{{queue}}"),
			},
			{
				Title: "Delay", Kind: Bars, Width: 8, Unit: Seconds, Warn: 600,
				About:   "Time that a job added now would wait: the ten longest; +Inf is forever.",
				Queries: one(`topk(10, queue:penstock_queue_delay_seconds:max{`+ofTeam+`})`, "{{queue}}"),
			},
		}},
	},
}
