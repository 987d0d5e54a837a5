package grafana

var overflow = Dashboard{
	Name: "overflow", Title: "Overflow", Picks: []Pick{byTeam, byQueue},
	About: "Deferred jobs: how many wait, whether they are readmitted, and which cannot be.",
	Rows: []Row{
		{Title: "What is moving", Height: 8, Panels: []Panel{
			{
				Title: "Deferred and readmitted", Kind: Chart, Width: 12, Unit: Rate,
				About: "If more jobs are deferred than readmitted for long, they exceed max_age and become dead jobs.",
				Queries: []Query{
					{
						Expr:   `sum by (queue) (rate(penstock_deferred_total{` + ofQueues + `}[$__rate_interval]))`,
						Legend: "{{queue}} deferred",
					},
					{
						Expr:   `sum by (queue) (rate(penstock_readmitted_total{` + ofQueues + `}[$__rate_interval]))`,
						Legend: "{{queue}} readmitted",
					},
				},
			},
			{
				Title: "Deferred jobs", Kind: Chart, Width: 12, Unit: Count, Stacked: true,
				About:   "Jobs waiting on the overflow for room in their queue.",
				Queries: one(`queue_state:penstock_jobs:max{`+ofQueues+`,state="deferred"}`, "{{queue}}"),
			},
		}},
		{Title: "Why does this not move", Height: 8, Panels: []Panel{
			{
				Title: "Oldest deferred job", Kind: Chart, Width: 8, Unit: Seconds, Warn: 43200, Bad: 86400,
				About:   "At max_age, by default 24 h, it becomes a dead job.",
				Queries: one(`max by (queue) (penstock_deferred_oldest_age_seconds{`+ofQueues+`})`, "{{queue}}"),
			},
			{
				Title: "Refused by the overflow", Kind: Chart, Width: 8, Unit: Rate,
				About: "NATS is unavailable, has lost its majority, or is full; jobs in the queues are not affected.",
				Queries: []Query{
					{
						Expr: `sum by (reason) (rate(penstock_overflow_failures_total[$__rate_interval]))`, Legend: "{{reason}}",
						Quiet: fromFirst,
					},
					{
						Expr:   `sum by (reason) (rate(penstock_dead_letter_failures_total[$__rate_interval]))`,
						Legend: "dead letters: {{reason}}",
						Quiet:  fromFirst,
					},
				},
			},
			{
				Title: "Not readmitted", Kind: Chart, Width: 8, Unit: Rate,
				About: "Dead letters by reason, and jobs recorded as deferred but missing on the overflow.",
				Queries: []Query{
					{
						Expr:   `sum by (queue, reason) (rate(penstock_dead_letters_total{` + ofQueues + `}[$__rate_interval]))`,
						Legend: "{{queue}} {{reason}}",
						Quiet:  fromFirst,
					},
					{
						Expr:   `sum by (queue) (rate(penstock_deferred_missing_total{` + ofQueues + `}[$__rate_interval]))`,
						Legend: "{{queue}} missing",
						Quiet:  fromFirst,
					},
				},
			},
		}},
		{Title: "What happens if I change that", Height: 8, Panels: []Panel{
			{
				Title: "Time until the overflow is empty", Kind: Bars, Width: 12, Unit: Seconds, Warn: 43200, Bad: 86400,
				About: "Deferred jobs divided by the rate, assuming no new jobs; if it exceeds max_age, raise either.",
				Queries: one(
					`sum by (queue) (queue_state:penstock_jobs:max{`+ofQueues+`,state="deferred"})`+
						` / queue:penstock_queue_rate:max`,
					"{{queue}}",
				),
			},
			{
				Title: "Time to defer jobs", Kind: Chart, Width: 12, Unit: Seconds,
				About:   "Time until NATS acknowledges a message; the producer waits for it.",
				Queries: spread("penstock_overflow_publish_seconds", ""),
			},
		}},
	},
}
