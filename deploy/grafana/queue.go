package grafana

var queue = Dashboard{
	Name: "queue", Title: "Queue", Picks: []Pick{byQueue},
	About: "One queue, or some: in, out and refused, why jobs stay, and what its settings hold back.",
	Rows: []Row{
		{Title: "What is moving", Height: 8, Panels: []Panel{
			{
				Title: "In", Kind: Chart, Width: 8, Unit: Rate,
				About:   "Jobs that came in, a second, by what became of them; a duplicate was in already.",
				Queries: one(`sum by (outcome) (queue_outcome:penstock_appended:rate5m{`+ofQueues+`})`, "{{outcome}}"),
			},
			{
				Title: "Out, against the rate", Kind: Chart, Width: 8, Unit: Rate,
				About: "What leaves, and what may: the configured rate, and what it has been adapted to.",
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
				About:   "What is in the queue, by state.",
				Queries: one(`sum by (state) (queue_state:penstock_jobs:max{`+ofQueues+`})`, "{{state}}"),
			},
		}},
		{Title: "Why does this not move", Height: 8, Panels: []Panel{
			{
				Title: "What it does", Kind: Timeline, Width: 12, Unit: Count,
				About:   "When it was flowing, and when paused, throttled, stalled or another thing.",
				Queries: one(`max by (queue, state) (penstock_queue_state{`+ofQueues+`})`, "{{queue}} {{state}}"),
			},
			{
				Title: "Stopped for", Kind: Chart, Width: 6, Unit: Seconds,
				About: "For how long nothing will leave because of the receiver: it asked for it, or is down.",
				Queries: one(
					`max by (queue, cause) (penstock_queue_stopped_seconds{`+ofQueues+`})`, "{{queue}} {{cause}}",
				),
			},
			{
				Title: "Paused, full or circuit open", Kind: Timeline, Width: 6, Unit: Count, Bad: 1,
				About: "1 while a person paused it, it has no room, or its target is taken to be down.",
				Queries: []Query{
					{Expr: `max by (queue) (penstock_paused{` + ofQueues + `})`, Legend: "{{queue}} paused"},
					{Expr: `max by (queue) (penstock_queue_full{` + ofQueues + `})`, Legend: "{{queue}} full"},
					{Expr: `max by (queue) (penstock_circuit_open{` + ofQueues + `})`, Legend: "{{queue}} circuit"},
				},
			},
		}},
		{Height: 8, Panels: []Panel{
			{
				Title: "Age of the head", Kind: Chart, Width: 6, Unit: Seconds,
				About:   "How long the job that is next has waited.",
				Queries: one(`queue:penstock_oldest_waiting_seconds:max{`+ofQueues+`}`, "{{queue}}"),
			},
			{
				Title: "Deliveries", Kind: Chart, Width: 6, Unit: Rate, Stacked: true,
				About:   "What became of what left; retry and dead are answers of the receiver, released was given back.",
				Queries: one(`sum by (outcome) (queue_outcome:penstock_deliveries:rate5m{`+ofQueues+`})`, "{{outcome}}"),
			},
			{
				Title: "Refused", Kind: Chart, Width: 6, Unit: Rate, Stacked: true,
				About:   "What was not accepted, by reason.",
				Queries: one(`sum by (reason) (queue_reason:penstock_refused:rate5m{`+ofQueues+`})`, "{{reason}}"),
			},
			{
				Title: "Departures lost", Kind: Chart, Width: 6, Unit: Rate,
				About: "Departures that a backlogged queue could have had: too few drainers or handlers, or slow round trips.",
				Queries: []Query{
					{
						Expr: `queue:penstock_lost_slots:rate5m{` + ofQueues + `}`, Legend: "{{queue}}",
						Quiet: "a queue counts departures lost from the first on; " + fromFirst,
					},
					{
						Expr:   `sum by (queue) (rate(penstock_pull_slots_lost_total{` + ofQueues + `}[$__rate_interval]))`,
						Legend: "{{queue}} (pull)",
						Quiet:  "a pull queue counts departures lost from the first on; " + fromFirst,
					},
				},
			},
		}},
		{Title: "What happens if I change that", Height: 8, Panels: []Panel{
			{
				Title: "Time until the backlog is gone", Kind: Chart, Width: 6, Unit: Seconds,
				About: "What waits divided by the rate, if nothing more comes in; twice the rate halves it.",
				Queries: one(
					`sum by (queue) (queue_state:penstock_jobs:max{`+ofQueues+`,state="waiting"})`+
						` / queue:penstock_queue_rate:max`,
					"{{queue}}",
				),
			},
			{
				Title: "Handlers held", Kind: Chart, Width: 6, Unit: Count, Stacked: true,
				About:   "Deliveries under way; a queue needs its rate x seconds a delivery takes, and max_in_flight bounds it.",
				Queries: one(`sum by (queue) (penstock_handlers_in_use{`+ofQueues+`})`, "{{queue}}"),
			},
			{
				Title: "Capacity in use", Kind: Chart, Width: 6, Unit: Share,
				About: "The share of its capacity that a queue holds; at 100% it refuses or defers.",
				Queries: one(
					`sum by (queue) (queue_state:penstock_jobs:max{`+ofQueues+`,state=~"waiting|scheduled|leased|held"})`+
						` / on (queue) max by (queue) (penstock_queue_capacity)`,
					"{{queue}}",
				),
			},
			{
				Title: "Bytes", Kind: Chart, Width: 6, Unit: Bytes,
				About: "What its jobs take, and max_bytes, at which it is full.",
				Queries: []Query{
					{Expr: `max by (queue) (penstock_queue_bytes{` + ofQueues + `})`, Legend: "{{queue}}"},
					{Expr: `max by (queue) (penstock_queue_max_bytes{` + ofQueues + `}) < Inf`, Legend: "{{queue}} may"},
				},
			},
		}},
	},
}
