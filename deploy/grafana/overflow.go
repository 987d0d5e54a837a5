package grafana

var overflow = Dashboard{
	Name: "overflow", Title: "Overflow", Picks: []Pick{byQueue},
	About: "Jobs that found no room and may wait: how many are set aside, whether they come back, and what cannot.",
	Rows: []Row{
		{Title: "What is moving", Height: 8, Panels: []Panel{
			{
				Title: "Set aside and taken back", Kind: Chart, Width: 12, Unit: Rate,
				About: "Where more is set aside than comes back for long, jobs grow older than max_age and are given up.",
				Queries: []Query{
					{
						Expr:   `sum by (queue) (rate(penstock_deferred_total{` + ofQueues + `}[$__rate_interval]))`,
						Legend: "{{queue}} aside",
					},
					{
						Expr:   `sum by (queue) (rate(penstock_readmitted_total{` + ofQueues + `}[$__rate_interval]))`,
						Legend: "{{queue}} back",
					},
				},
			},
			{
				Title: "Deferred jobs", Kind: Chart, Width: 12, Unit: Count, Stacked: true,
				About:   "What waits on the overflow for room in its queue.",
				Queries: one(`queue_state:penstock_jobs:max{`+ofQueues+`,state="deferred"}`, "{{queue}}"),
			},
		}},
		{Title: "Why does this not move", Height: 8, Panels: []Panel{
			{
				Title: "Oldest deferred job", Kind: Chart, Width: 8, Unit: Seconds, Warn: 43200, Bad: 86400,
				About:   "At max_age, 24 h unless the queue says otherwise, it is given up.",
				Queries: one(`max by (queue) (penstock_deferred_oldest_age_seconds{`+ofQueues+`})`, "{{queue}}"),
			},
			{
				Title: "Not taken by the overflow", Kind: Chart, Width: 8, Unit: Rate,
				About: "NATS is away, has lost its majority, or is full; what is in the queues goes on.",
				Queries: []Query{
					{
						Expr: `sum by (reason) (rate(penstock_overflow_failures_total[$__rate_interval]))`, Legend: "{{reason}}",
						Quiet: "messages that NATS did not take are counted from the first on; " + fromFirst,
					},
					{
						Expr:   `sum by (reason) (rate(penstock_dead_letter_failures_total[$__rate_interval]))`,
						Legend: "dead letters: {{reason}}",
						Quiet:  "dead letters that NATS did not take are counted from the first on; " + fromFirst,
					},
				},
			},
			{
				Title: "Could not come back", Kind: Chart, Width: 8, Unit: Rate,
				About: "Dead letters by reason, and jobs that are recorded as deferred and are not on the overflow.",
				Queries: []Query{
					{
						Expr:   `sum by (queue, reason) (rate(penstock_dead_letters_total{` + ofQueues + `}[$__rate_interval]))`,
						Legend: "{{queue}} {{reason}}",
						Quiet:  "dead letters are counted from the first on; " + fromFirst,
					},
					{
						Expr:   `sum by (queue) (rate(penstock_deferred_missing_total{` + ofQueues + `}[$__rate_interval]))`,
						Legend: "{{queue}} missing",
						Quiet:  "jobs missing on the overflow are counted from the first on; " + fromFirst,
					},
				},
			},
		}},
		{Title: "What happens if I change that", Height: 8, Panels: []Panel{
			{
				Title: "Time until the overflow is empty", Kind: Bars, Width: 12, Unit: Seconds, Warn: 43200, Bad: 86400,
				About: "What is set aside divided by the rate, if nothing more comes in; above max_age raise one of the two.",
				Queries: one(
					`sum by (queue) (queue_state:penstock_jobs:max{`+ofQueues+`,state="deferred"})`+
						` / queue:penstock_queue_rate:max`,
					"{{queue}}",
				),
			},
			{
				Title: "Time to set jobs aside", Kind: Chart, Width: 12, Unit: Seconds,
				About:   "Until NATS has acknowledged a message, which the producer waits for.",
				Queries: spread("penstock_overflow_publish_seconds"),
			},
		}},
	},
}
