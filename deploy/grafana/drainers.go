package grafana

var drainers = Dashboard{
	Name: "drainers", Title: "Drainers", Picks: []Pick{byQueue},
	About: "Who takes jobs out and hands them over, by drainer and for workers that pull.",
	Rows: []Row{
		{Title: "What is moving", Height: 8, Panels: []Panel{
			{
				Title: "Departures, by drainer", Kind: Chart, Width: 8, Unit: Rate, Stacked: true,
				About: "What each drainer starts; they share the rate by who asks first, and not evenly.",
				Queries: one(
					`sum by (instance) (rate(penstock_departures_total{`+ofQueues+`}[$__rate_interval]))`, "{{instance}}",
				),
			},
			{
				Title: "Handed to workers", Kind: Chart, Width: 8, Unit: Rate, Stacked: true,
				About: "Jobs of pull queues: handed out, or given back since they came too late or nobody was there.",
				Queries: one(
					`sum by (outcome) (rate(penstock_pull_jobs_total{`+ofQueues+`}[$__rate_interval]))`, "{{outcome}}",
				),
			},
			{
				Title: "Settled", Kind: Chart, Width: 8, Unit: Rate, Stacked: true,
				About: "Leases ended; stale ones had run out, and their jobs may be delivered again.",
				Queries: one(
					`sum by (result) (rate(penstock_settlements_total{`+ofQueues+`}[$__rate_interval]))`, "{{result}}",
				),
			},
		}},
		{Title: "Why does this not move", Height: 8, Panels: []Panel{
			{
				Title: "Free handlers", Kind: Chart, Width: 6, Unit: Count, BadBelow: 1,
				About:   "At 0 a drainer takes no job; raise --concurrency, or look at the receiver that is slow.",
				Queries: one(`min by (instance) (penstock_free_handlers)`, "{{instance}}"),
			},
			{
				Title: "Who holds handlers", Kind: Bars, Width: 6, Unit: Count,
				About:   "The ten queues with most deliveries under way.",
				Queries: one(`topk(10, sum by (queue) (penstock_handlers_in_use))`, "{{queue}}"),
			},
			{
				Title: "Longest delivery", Kind: Chart, Width: 6, Unit: Seconds,
				About:   "For how long the oldest delivery has been under way.",
				Queries: one(`max by (instance) (penstock_handler_longest_seconds)`, "{{instance}}"),
			},
			{
				Title: "Queues that hang", Kind: Chart, Width: 6, Unit: Count, Bad: 1,
				About:   "Their receivers took requests and have answered nothing for 10 s; lower the queue's timeout.",
				Queries: one(`max by (instance) (penstock_hanging_queues)`, "{{instance}}"),
			},
		}},
		{Height: 8, Panels: []Panel{
			{
				Title: "Given back", Kind: Chart, Width: 8, Unit: Share, Stacked: true, Bad: 0.01,
				About: "The share of departures not used, by reason; late means too little CPU or slack, or a store too far away.",
				Queries: quiet(
					`sum by (reason) (rate(penstock_releases_total{`+ofQueues+`}[$__rate_interval])) / on () group_left () (`+
						`sum(rate(penstock_releases_total{`+ofQueues+`}[$__rate_interval]))`+
						` + sum(rate(penstock_departures_total{`+ofQueues+`}[$__rate_interval])))`, "{{reason}}",
					"departures given back are counted from the first on; "+fromFirst,
				),
			},
			{
				Title: "Leases that ran out", Kind: Chart, Width: 8, Unit: Rate,
				About: "A drainer died or was cut off from the store; those jobs are delivered again.",
				Queries: []Query{
					{
						Expr:   `sum by (queue) (rate(penstock_leases_expired_total{` + ofQueues + `}[$__rate_interval]))`,
						Legend: "{{queue}}", Quiet: "leases that ran out are counted from the first on; " + fromFirst,
					},
					{
						Expr:   `sum by (queue) (rate(penstock_pull_leases_expired_total{` + ofQueues + `}[$__rate_interval]))`,
						Legend: "{{queue}} (pull)", Quiet: "an ingress counts leases that ran out from the first on; " + fromFirst,
					},
					{
						Expr:   `sum by (queue) (rate(penstock_leases_lost_total{` + ofQueues + `}[$__rate_interval]))`,
						Legend: "{{queue}} stopped",
						Quiet:  "jobs stopped for a lost lease are counted from the first on; " + fromFirst,
					},
				},
			},
			{
				Title: "Circuits opened", Kind: Chart, Width: 8, Unit: Rate,
				About: "How often a target was found to be down.",
				Queries: quiet(
					`sum by (queue) (rate(penstock_circuit_opened_total{`+ofQueues+`}[$__rate_interval]))`, "{{queue}}",
					"circuits that open are counted from the first on; "+fromFirst,
				),
			},
		}},
		{Title: "Can they hold the pace", Height: 8, Panels: []Panel{
			{
				Title: "Start after departure", Kind: Chart, Width: 6, Unit: Seconds,
				About:   "How late jobs start; above the queue's slack they are given back.",
				Queries: spread("penstock_start_lateness_seconds"),
			},
			{
				Title: "Answer to a worker after departure", Kind: Chart, Width: 6, Unit: Seconds,
				About:   "How late a worker that pulls gets its job.",
				Queries: spread("penstock_pull_lateness_seconds"),
			},
			{
				Title: "Time a delivery takes", Kind: Chart, Width: 6, Unit: Seconds,
				About:   "Times the rate, it says how many handlers a queue needs.",
				Queries: spread("penstock_handler_seconds"),
			},
			{
				Title: "Workers that wait", Kind: Chart, Width: 6, Unit: Count,
				About:   "Requests of workers for which there is no job yet.",
				Queries: one(`sum by (instance) (penstock_pull_waiting)`, "{{instance}}"),
			},
		}},
	},
}
