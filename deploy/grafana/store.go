package grafana

var store = Dashboard{
	Name: "store", Title: "Store and processes",
	About: "How full the store is, how fast it answers, and the processes that use it.",
	Rows: []Row{
		{Title: "How full is it", Height: 8, Panels: []Panel{
			{
				Title: "Used", Kind: Chart, Width: 8, Unit: Share, Warn: 0.7, Bad: 0.9,
				About:   "Share of the space for appends; at 100% the store accepts no jobs, and deliveries continue.",
				Queries: one(`max(penstock_store_used_bytes / penstock_store_limit_bytes)`, "used"),
			},
			{
				Title: "Bytes", Kind: Chart, Width: 8, Unit: Bytes,
				About: "Used bytes, and the limit for appends; with several Redis servers, of the fullest.",
				Queries: []Query{
					{Expr: `max(penstock_store_used_bytes)`, Legend: "used"},
					{Expr: `max(penstock_store_limit_bytes) < Inf`, Legend: "limit"},
				},
			},
			{
				Title: "Largest queues", Kind: Bars, Width: 8, Unit: Bytes,
				About:   "The ten largest queues: drain them faster, or limit them with max_bytes.",
				Queries: one(`topk(10, max by (queue) (penstock_queue_bytes))`, "{{queue}}"),
			},
		}},
		{Title: "Does it answer", Height: 8, Panels: []Panel{
			{
				Title: "Duration of appends", Kind: Chart, Width: 6, Unit: Seconds,
				About:   "Duration of a call with one or many jobs.",
				Queries: spread("penstock_append_seconds", ""),
			},
			{
				Title: "Duration of reserves", Kind: Chart, Width: 6, Unit: Seconds,
				About:   "Time that drainers wait for jobs.",
				Queries: spread("penstock_reserve_seconds", ""),
			},
			{
				Title: "Reserves", Kind: Chart, Width: 6, Unit: Rate, Stacked: true,
				About:   "Reserve calls of drainers by result: jobs, empty or failed.",
				Queries: one(`sum by (result) (rate(penstock_reserves_total[$__rate_interval]))`, "{{result}}"),
			},
			{
				Title: "Last read", Kind: Chart, Width: 6, Unit: Seconds, Bad: 60,
				About:   "Time since a process last read the state of the queues; normally every 10 s.",
				Queries: one(`time() - penstock_refreshed_timestamp_seconds`, "{{instance}}"),
			},
		}},
		{Height: 8, Panels: []Panel{
			{
				Title: "Round trips to Redis", Kind: Chart, Width: 12, Unit: Seconds,
				About:   "99th percentile by kind; a slow disk shows here, and penstock up has no Redis.",
				Queries: one(quantile(0.99, "penstock_redis_seconds", "kind", ""), "{{kind}}"),
			},
			{
				Title: "Redis errors", Kind: Chart, Width: 12, Unit: Rate,
				About: "Failed commands and connections, by process.",
				Queries: one(
					`sum by (instance, kind) (rate(penstock_redis_errors_total[$__rate_interval]))`, "{{instance}} {{kind}}",
				),
			},
		}},
		{Title: "The processes", Height: 8, Panels: []Panel{
			{
				Title: "Versions", Kind: Table, Width: 6, Unit: Count,
				About:   "Number of processes by version; upgrade drainers before ingresses.",
				Queries: one(`count by (job, version) (penstock_build_info)`, ""),
			},
			{
				Title: "CPU", Kind: Chart, Width: 6, Unit: Count,
				About: "Cores that each process uses; with too few, departures are late.",
				Queries: one(
					`sum by (instance) (rate(process_cpu_seconds_total{job=~"penstock-.*"}[$__rate_interval]))`, "{{instance}}",
				),
			},
			{
				Title: "Memory for clients", Kind: Chart, Width: 6, Unit: Share, Warn: 0.7, Bad: 0.9,
				About:   "Share of --memory charged for connections, requests and streams.",
				Queries: one(`max by (instance) (penstock_memory_used_bytes / penstock_memory_limit_bytes)`, "{{instance}}"),
			},
			{
				Title: "Refused for memory", Kind: Chart, Width: 6, Unit: Rate,
				About:   "Requests refused because one client, or all together, used too much memory.",
				Queries: one(`sum by (reason) (rate(penstock_memory_refused_total[$__rate_interval]))`, "{{reason}}"),
			},
		}},
		{Title: "Certificates and tokens", Height: 8, Panels: []Panel{
			{
				Title: "Certificate expires in", Kind: Chart, Width: 8, Unit: Seconds, BadBelow: 7 * 86400,
				About: "Replace the files of --tls-cert before this time.",
				Queries: quiet(
					`min by (instance) (penstock_tls_expires_timestamp_seconds) - time()`, "{{instance}}",
					"no series without --tls-cert",
				),
			},
			{
				Title: "Invalid certificate files", Kind: Chart, Width: 8, Unit: Count, Bad: 1,
				About: "1 while the files are not a certificate and its key; the server keeps the last valid one.",
				Queries: quiet(
					`max by (instance) (penstock_tls_stale)`, "{{instance}}",
					"no series without --tls-cert",
				),
			},
			{
				Title: "Authentication", Kind: Chart, Width: 8, Unit: Rate, Stacked: true,
				About:   "Accepted requests, and refused requests by reason; none with --no-auth.",
				Queries: one(`sum by (outcome) (rate(penstock_auth_requests_total[$__rate_interval]))`, "{{outcome}}"),
			},
		}},
	},
}
