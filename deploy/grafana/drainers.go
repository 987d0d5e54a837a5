package grafana

var drainers = Dashboard{
	Name: "drainers", Title: "Drainers", Picks: []Pick{byTeam, byQueue},
	About: "Deliveries by drainer, and jobs handed to workers of pull queues.",
	Rows: []Row{
		{Title: "What is moving", Height: 8, Panels: []Panel{
			{
				Title: "Departures, by drainer", Kind: Chart, Width: 8, Unit: Rate, Stacked: true,
				About: "Jobs that each drainer starts; drainers share the rate, but not evenly.",
				Queries: one(
					`sum by (instance) (rate(penstock_departures_total{`+ofQueues+`}[$__rate_interval]))`, "{{instance}}",
				),
			},
			{
				Title: "Handed to workers", Kind: Chart, Width: 8, Unit: Rate, Stacked: true,
				About: "Jobs of pull queues: handed to a worker, or returned because they were late or no worker was waiting.",
				Queries: one(
					`sum by (outcome) (rate(penstock_pull_jobs_total{`+ofQueues+`}[$__rate_interval]))`, "{{outcome}}",
				),
			},
			{
				Title: "Settled", Kind: Chart, Width: 8, Unit: Rate, Stacked: true,
				About: "Settled leases; stale ones had expired, and their jobs may be delivered again.",
				Queries: one(
					`sum by (result) (rate(penstock_settlements_total{`+ofQueues+`}[$__rate_interval]))`, "{{result}}",
				),
			},
		}},
		{Title: "Why does this not move", Height: 8, Panels: []Panel{
			{
				Title: "Free handlers", Kind: Chart, Width: 6, Unit: Count, BadBelow: 1,
				About:   "At 0 a drainer starts no jobs; raise --concurrency, or check for a slow receiver.",
				Queries: one(`min by (instance) (penstock_free_handlers)`, "{{instance}}"),
			},
			{
				Title: "Handlers in use", Kind: Bars, Width: 6, Unit: Count,
				About:   "The ten queues with the most running deliveries.",
				Queries: one(`topk(10, sum by (queue) (penstock_handlers_in_use))`, "{{queue}}"),
			},
			{
				Title: "Longest delivery", Kind: Chart, Width: 6, Unit: Seconds,
				About:   "Duration of the longest running delivery.",
				Queries: one(`max by (instance) (penstock_handler_longest_seconds)`, "{{instance}}"),
			},
			{
				Title: "Hanging queues", Kind: Chart, Width: 6, Unit: Count, Bad: 1,
				About:   "Queues whose receivers accepted requests but have not answered for 10 s; lower the queue's timeout.",
				Queries: one(`max by (instance) (penstock_hanging_queues)`, "{{instance}}"),
			},
		}},
		{Height: 8, Panels: []Panel{
			{
				Title: "Returned unused", Kind: Chart, Width: 6, Unit: Share, Stacked: true, Bad: 0.01,
				About: "Share of departures returned unused, by reason; late means too little CPU or slack, or a distant store.",
				Queries: quiet(
					`sum by (reason) (rate(penstock_releases_total{`+ofQueues+`}[$__rate_interval])) / on () group_left () (`+
						`sum(rate(penstock_releases_total{`+ofQueues+`}[$__rate_interval]))`+
						` + sum(rate(penstock_departures_total{`+ofQueues+`}[$__rate_interval])))`, "{{reason}}",
					fromFirst,
				),
			},
			{
				Title: "Expired leases", Kind: Chart, Width: 6, Unit: Rate,
				About: "A drainer died or lost the store; the jobs are delivered again.",
				Queries: []Query{
					{
						Expr:   `sum by (queue) (rate(penstock_leases_expired_total{` + ofQueues + `}[$__rate_interval]))`,
						Legend: "{{queue}}", Quiet: fromFirst,
					},
					{
						Expr:   `sum by (queue) (rate(penstock_pull_leases_expired_total{` + ofQueues + `}[$__rate_interval]))`,
						Legend: "{{queue}} (pull)", Quiet: fromFirst,
					},
					{
						Expr:   `sum by (queue) (rate(penstock_leases_lost_total{` + ofQueues + `}[$__rate_interval]))`,
						Legend: "{{queue}} stopped",
						Quiet:  fromFirst,
					},
				},
			},
			{
				Title: "Circuits opened", Kind: Chart, Width: 6, Unit: Rate,
				About: "Circuits opened because a target was down.",
				Queries: quiet(
					`sum by (queue) (rate(penstock_circuit_opened_total{`+ofQueues+`}[$__rate_interval]))`, "{{queue}}",
					fromFirst,
				),
			},
			{
				Title: "Slowest receivers", Kind: Bars, Width: 6, Unit: Seconds,
				About: "Duration of a delivery by queue, 99th percentile: the ten longest.",
				Queries: one(
					"topk(10, "+quantile(0.99, "penstock_handler_seconds", "queue", ofQueues)+" > 0)", "{{queue}}",
				),
			},
		}},
		{Title: "Can they hold the pace", Height: 8, Panels: []Panel{
			{
				Title: "Start after departure", Kind: Chart, Width: 6, Unit: Seconds,
				About:   "Time from departure to start; jobs later than the queue's slack are returned.",
				Queries: spread("penstock_start_lateness_seconds", ""),
			},
			{
				Title: "Handed to a worker after departure", Kind: Chart, Width: 6, Unit: Seconds,
				About:   "Time from departure until a pulling worker has its job.",
				Queries: spread("penstock_pull_lateness_seconds", ""),
			},
			{
				Title: "Duration of deliveries", Kind: Chart, Width: 6, Unit: Seconds,
				About:   "Multiplied by the rate, it is the number of handlers that the chosen queues need.",
				Queries: spread("penstock_handler_seconds", ofQueues),
			},
			{
				Title: "Waiting workers", Kind: Chart, Width: 6, Unit: Count,
				About:   "Worker requests that wait for a job.",
				Queries: one(`sum by (instance) (penstock_pull_waiting)`, "{{instance}}"),
			},
		}},
	},
}
