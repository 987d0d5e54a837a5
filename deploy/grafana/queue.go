package grafana

var queue = Dashboard{
	Name: "queue", Title: "Queue", Picks: []Pick{byTeam, byQueue},
	About: "One or several queues: jobs in, out and refused, why jobs stay, and the effect of settings.",
	Rows: []Row{
		{Title: "What is moving", Height: 8, Panels: []Panel{
			{
				Title: "In", Kind: Chart, Width: 8, Unit: Rate,
				About:   "Appended jobs per second by outcome; duplicates were already present.",
				Queries: one(`sum by (outcome) (queue_outcome:penstock_appended:rate5m{`+ofQueues+`})`, "{{outcome}}"),
			},
			{
				Title: "Out and rate", Kind: Chart, Width: 8, Unit: Rate,
				About: "Departures, the rate in effect, and the configured rate.",
				Queries: []Query{
					{Expr: `queue:penstock_outflow_per_second:max{` + ofQueues + `}`, Legend: "{{queue}} out"},
					{Expr: `queue:penstock_queue_rate:max{` + ofQueues + `} < Inf`, Legend: "{{queue}} rate"},
					{
						Expr:   `max by (queue) (penstock_rate_per_second{` + ofQueues + `}) < Inf`,
						Legend: "{{queue}} configured",
					},
				},
			},
			{
				Title: "Jobs", Kind: Chart, Width: 8, Unit: Count, Stacked: true,
				About:   "Jobs in the queue, by state.",
				Queries: one(`sum by (state) (queue_state:penstock_jobs:max{`+ofQueues+`})`, "{{state}}"),
			},
		}},
		{Title: "Why does this not move", Height: 8, Panels: []Panel{
			{
				Title: "State", Kind: Timeline, Width: 6, Unit: Count,
				About:   "States of the queue over time, for example flowing, paused, throttled or stalled.",
				Queries: one(`max by (queue, state) (penstock_queue_state{`+ofQueues+`})`, "{{queue}} {{state}}"),
			},
			{
				Title: "Stopped for", Kind: Chart, Width: 6, Unit: Seconds,
				About: "Remaining time of a stop because the receiver asked for a delay or is down.",
				Queries: one(
					`max by (queue, cause) (penstock_queue_stopped_seconds{`+ofQueues+`})`, "{{queue}} {{cause}}",
				),
			},
			{
				Title: "Dead and held", Kind: Chart, Width: 6, Unit: Count,
				About: "Dead jobs can be replayed; held jobs need a decision.",
				Queries: one(
					`queue_state:penstock_jobs:max{`+ofQueues+`,state=~"dead|held"}`, "{{queue}} {{state}}",
				),
			},
			{
				Title: "Paused, full or circuit open", Kind: Timeline, Width: 6, Unit: Count, Bad: 1,
				About: "1 while the queue is paused, is full, or has an open circuit because its target is down.",
				Queries: []Query{
					{Expr: `max by (queue) (penstock_paused{` + ofQueues + `})`, Legend: "{{queue}} paused"},
					{Expr: `max by (queue) (penstock_queue_full{` + ofQueues + `})`, Legend: "{{queue}} full"},
					{Expr: `max by (queue) (penstock_circuit_open{` + ofQueues + `})`, Legend: "{{queue}} circuit"},
				},
			},
		}},
		{Title: "When is it done", Height: 8, Panels: []Panel{
			{
				Title: "Finish and delay", Kind: Chart, Width: 8, Unit: Seconds,
				About: "Time until the last job has left if no jobs are added, and wait of a job added now; no line is never.",
				Queries: []Query{
					{Expr: `queue:penstock_queue_drain_seconds:max{` + ofQueues + `} < Inf`, Legend: "{{queue}} finish"},
					{Expr: `queue:penstock_queue_delay_seconds:max{` + ofQueues + `} < Inf`, Legend: "{{queue}} delay"},
				},
			},
			{
				Title: "Waits", Kind: Heatmap, Width: 8, Unit: Seconds,
				About: "Jobs per second by the time that they waited for their first attempt.",
				Queries: one(
					`sum by (le) (rate(penstock_wait_seconds_bucket{`+ofQueues+`}[$__rate_interval]))`, "{{le}}",
				),
			},
			{
				Title: "Wait", Kind: Chart, Width: 8, Unit: Seconds,
				About:   "Time that jobs waited for their first attempt: median and 99th percentile.",
				Queries: spread("penstock_wait_seconds", ofQueues),
			},
		}},
		{Height: 8, Panels: []Panel{
			{
				Title: "Age of the head", Kind: Chart, Width: 6, Unit: Seconds,
				About:   "Time that the next job has waited.",
				Queries: one(`queue:penstock_oldest_waiting_seconds:max{`+ofQueues+`}`, "{{queue}}"),
			},
			{
				Title: "Deliveries", Kind: Chart, Width: 6, Unit: Rate, Stacked: true,
				About:   "Started jobs by outcome; retry and dead are failures, released jobs were returned.",
				Queries: one(`sum by (outcome) (queue_outcome:penstock_deliveries:rate5m{`+ofQueues+`})`, "{{outcome}}"),
			},
			{
				Title: "Refused", Kind: Chart, Width: 6, Unit: Rate, Stacked: true,
				About:   "Refused jobs, by reason.",
				Queries: one(`sum by (reason) (queue_reason:penstock_refused:rate5m{`+ofQueues+`})`, "{{reason}}"),
			},
			{
				Title: "Lost departures", Kind: Chart, Width: 6, Unit: Rate,
				About: "Departures that the queue missed while jobs waited: too few drainers or handlers, or slow round trips.",
				Queries: []Query{
					{
						Expr: `queue:penstock_lost_slots:rate5m{` + ofQueues + `}`, Legend: "{{queue}}",
						Quiet: fromFirst,
					},
					{
						Expr:   `sum by (queue) (rate(penstock_pull_slots_lost_total{` + ofQueues + `}[$__rate_interval]))`,
						Legend: "{{queue}} (pull)",
						Quiet:  fromFirst,
					},
				},
			},
		}},
		{Title: "What happens if I change that", Height: 8, Panels: []Panel{
			{
				Title: "Quota left", Kind: Bars, Width: 6, Unit: Count, BadBelow: 1,
				About: "Unused part of each quota in its present window; at 0 no jobs leave until the window ends.",
				Queries: quiet(
					`max by (queue, quota) (penstock_quota_left{`+ofQueues+`})`, "{{queue}} {{quota}}",
					"no series without a quota",
				),
			},
			{
				Title: "Handlers in use", Kind: Chart, Width: 6, Unit: Count, Stacked: true,
				About:   "Running deliveries; a queue needs rate x delivery time in seconds, and max_in_flight limits it.",
				Queries: one(`sum by (queue) (penstock_handlers_in_use{`+ofQueues+`})`, "{{queue}}"),
			},
			{
				Title: "Capacity in use", Kind: Chart, Width: 6, Unit: Share,
				About: "Share of a queue's capacity in use; at 100% it refuses or defers jobs.",
				Queries: one(
					`sum by (queue) (queue_state:penstock_jobs:max{`+ofQueues+`,state=~"waiting|scheduled|leased|held"})`+
						` / on (queue) max by (queue) (penstock_queue_capacity)`,
					"{{queue}}",
				),
			},
			{
				Title: "Bytes", Kind: Chart, Width: 6, Unit: Bytes,
				About: "Size of its jobs, and max_bytes, at which the queue is full.",
				Queries: []Query{
					{Expr: `max by (queue) (penstock_queue_bytes{` + ofQueues + `})`, Legend: "{{queue}}"},
					{Expr: `max by (queue) (penstock_queue_max_bytes{` + ofQueues + `}) < Inf`, Legend: "{{queue}} limit"},
				},
			},
		}},
	},
}
