package grafana

var store = Dashboard{
	Name: "store", Title: "Store and processes",
	About: "How full the store is, how fast it answers, and the processes that ask it.",
	Rows: []Row{
		{Title: "How full is it", Height: 8, Panels: []Panel{
			{
				Title: "Used", Kind: Chart, Width: 8, Unit: Share, Warn: 0.7, Bad: 0.9,
				About:   "Of what appends may use; at 100% no jobs are taken, and what makes room goes on.",
				Queries: one(`max(penstock_store_used_bytes / penstock_store_limit_bytes)`, "used"),
			},
			{
				Title: "Bytes", Kind: Chart, Width: 8, Unit: Bytes,
				About: "What is used, and at how much no jobs are taken; of several Redis servers the fullest.",
				Queries: []Query{
					{Expr: `max(penstock_store_used_bytes)`, Legend: "used"},
					{Expr: `max(penstock_store_limit_bytes) < Inf`, Legend: "limit"},
				},
			},
			{
				Title: "Largest queues", Kind: Bars, Width: 8, Unit: Bytes,
				About:   "The ten that take most: let them drain faster, or bound them with max_bytes.",
				Queries: one(`topk(10, max by (queue) (penstock_queue_bytes))`, "{{queue}}"),
			},
		}},
		{Title: "Does it answer", Height: 8, Panels: []Panel{
			{
				Title: "Time an append takes", Kind: Chart, Width: 6, Unit: Seconds,
				About:   "One call of one or many jobs.",
				Queries: spread("penstock_append_seconds"),
			},
			{
				Title: "Time a reserve takes", Kind: Chart, Width: 6, Unit: Seconds,
				About:   "How long drainers wait for the jobs that they ask for.",
				Queries: spread("penstock_reserve_seconds"),
			},
			{
				Title: "Reserves", Kind: Chart, Width: 6, Unit: Rate, Stacked: true,
				About:   "What drainers got when they asked: jobs, nothing, or no answer.",
				Queries: one(`sum by (result) (rate(penstock_reserves_total[$__rate_interval]))`, "{{result}}"),
			},
			{
				Title: "Last read", Kind: Chart, Width: 6, Unit: Seconds, Bad: 60,
				About:   "For how long a process has not read the state of the queues; each does so every 10 s.",
				Queries: one(`time() - penstock_refreshed_timestamp_seconds`, "{{instance}}"),
			},
		}},
		{Height: 8, Panels: []Panel{
			{
				Title: "Round trips to Redis", Kind: Chart, Width: 12, Unit: Seconds,
				About:   "99th percentile by kind, where a slow disk shows; penstock up has no Redis.",
				Queries: one(quantile(0.99, "penstock_redis_seconds", "kind", ""), "{{kind}}"),
			},
			{
				Title: "Errors of Redis", Kind: Chart, Width: 12, Unit: Rate,
				About: "Commands and connections that failed, by process.",
				Queries: one(
					`sum by (instance, kind) (rate(penstock_redis_errors_total[$__rate_interval]))`, "{{instance}} {{kind}}",
				),
			},
		}},
		{Title: "The processes", Height: 8, Panels: []Panel{
			{
				Title: "Versions", Kind: Table, Width: 6, Unit: Count,
				About:   "How many processes run which version; drainers are upgraded before ingress.",
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
				About:   "What connections, requests and streams are charged for, of --memory.",
				Queries: one(`max by (instance) (penstock_memory_used_bytes / penstock_memory_limit_bytes)`, "{{instance}}"),
			},
			{
				Title: "Refused for memory", Kind: Chart, Width: 6, Unit: Rate,
				About:   "Requests refused because one client, or all of them, would take too much.",
				Queries: one(`sum by (reason) (rate(penstock_memory_refused_total[$__rate_interval]))`, "{{reason}}"),
			},
		}},
		{Title: "Certificates and tokens", Height: 8, Panels: []Panel{
			{
				Title: "Certificate expires in", Kind: Chart, Width: 8, Unit: Seconds, BadBelow: 7 * 86400,
				About: "Until then the files of --tls-cert must have another.",
				Queries: quiet(
					`min by (instance) (penstock_tls_expires_timestamp_seconds) - time()`, "{{instance}}",
					"only a process with --tls-cert has a certificate; there is none without",
				),
			},
			{
				Title: "Certificate files that cannot be used", Kind: Chart, Width: 8, Unit: Count, Bad: 1,
				About: "1 while the files have something else than a certificate and its key; the last one is served on.",
				Queries: quiet(
					`max by (instance) (penstock_tls_stale)`, "{{instance}}",
					"only a process with --tls-cert has files to look at; there is none without",
				),
			},
			{
				Title: "Requests that show a token", Kind: Chart, Width: 8, Unit: Rate, Stacked: true,
				About:   "Those let in, and the others by reason; --no-auth asks nobody.",
				Queries: one(`sum by (outcome) (rate(penstock_auth_requests_total[$__rate_interval]))`, "{{outcome}}"),
			},
		}},
	},
}
