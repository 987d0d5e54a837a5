package deploytest

// brokenMonitoring are faults of what watches an installation.
var brokenMonitoring = []breakage{
	{"prometheus", "prometheus/prometheus.yml", "scrape_interval", "scrap_interval", "scrap_interval"},
	{
		"prometheus", "prometheus/prometheus.yml", "port: 8081", "port: 8080",
		`drainer listens at port 8081 and is scraped at port "8080"`,
	},
	{
		"prometheus", "prometheus/prometheus.yml", `"ingress-2:8082"`, `"ingress-3:8082"`,
		"ingress-3 is scraped, and no service of ours",
	},
	{
		"prometheus", "compose.yaml", "PENSTOCK_HOST: ingress-1,ingress-2", "PENSTOCK_HOST: ingress-1",
		"ingress-2 is scraped by a name that its PENSTOCK_HOST does not have",
	},
	{"prometheus", "prometheus/prometheus.yml", ", alerts.yml]", ", alarms.yml]", "there is no alarms.yml"},
	{"prometheus", "prometheus/prometheus.yml", "job_name: penstock-drainer", "job_name: drainer", "leaves out drainer"},
	{"prometheus", "prometheus/alerts.yml", "        for: 1m\n", "        four: 1m\n", "four"},
	{
		"prometheus", "prometheus/alerts.yml", "alert: PenstockNoDrainer", "alert: PenstockNoIngress",
		`"PenstockNoIngress" is there twice`,
	},
	{"prometheus", "prometheus/alerts.yml", "for: 1h", "for: an hour", "PenstockPaused: for:"},
	{"prometheus", "prometheus/alerts.yml", "severity: page", "severity: pager", `its severity is "pager"`},
	{
		"prometheus", "prometheus/alerts.yml", "absent(penstock_queues)", "absent(penstock_queues",
		"unclosed left parenthesis",
	},
	{
		"prometheus", "prometheus/alerts.yml", "penstock_lost_slots_total[5m]", "penstock_slots_lost_total[5m]",
		"does not tell of penstock_slots_lost_total",
	},
	{
		"prometheus", "prometheus/alerts.yml", `reason=~"full|`, `reason=~"fill|`,
		`tells of no penstock_refused_total{reason="fill"}`,
	},
	{
		"prometheus", "prometheus/alerts.yml", `{reason=~"full`, `{cause=~"full`,
		"penstock_refused_total has no label cause",
	},
	{
		"prometheus", "prometheus/alerts.yml", "sum by (queue) (rate(penstock_refused_total",
		"sum by (kind) (rate(penstock_refused_total", "it is by kind, which none of its metrics has",
	},
	{
		"prometheus", "prometheus/alerts.yml", "{{ $labels.queue }} loses", "{{ $labels.instance }} loses",
		`no entry for key "instance"`,
	},
	{
		"prometheus", "prometheus/alerts.yml", "{{ $value | humanize }} jobs of", "{{ $value | human }} jobs of",
		`function "human" not defined`,
	},
	{
		"prometheus", "prometheus/alerts.yml", "penstock_leases_expired_total", "penstock_leases_lost_total",
		"no alert is about penstock_leases_expired_total",
	},
	{
		"prometheus", "prometheus/alerts.yml", `penstock_jobs{state="held"}`, `penstock_jobs{state="hold"}`,
		`tells of no penstock_jobs{state="hold"}`,
	},
	{"prometheus", "prometheus/alerts.yml", "penstock_jobs{", "penstock_dead{", "no alert is about penstock_jobs"},
	{
		"prometheus", "prometheus/alerts.yml", "penstock_circuit_open", "penstock_circuits_open",
		"no alert is about penstock_circuit_open",
	},
	{
		"prometheus", "prometheus/alerts.yml", "max by (queue) (penstock_circuit_open)",
		"max by (target) (penstock_circuit_open)", "it is by target, which none of its metrics has",
	},
	{
		"prometheus", "prometheus/alerts.yml", `penstock_queue_stopped_seconds{cause="throttled"}`,
		`penstock_queue_stopped_seconds{cause="spared"}`, `tells of no penstock_queue_stopped_seconds{cause="spared"}`,
	},
	{
		"prometheus", "prometheus/alerts.yml", `penstock_pull_jobs_total{outcome!~"handed|stopping"}`,
		`penstock_pull_jobs_total{outcome!~"handled|stopping"}`, `tells of no penstock_pull_jobs_total{outcome="handled"}`,
	},
	{
		"prometheus", "prometheus/alerts.yml", "penstock_pull_jobs_total", "penstock_pulled_total",
		"no alert is about penstock_pull_jobs_total",
	},
	{
		"prometheus", "prometheus/alerts.yml", `penstock_queue_state{state="stalled"}`,
		`penstock_queue_state{state="stuck"}`, `tells of no penstock_queue_state{state="stuck"}`,
	},
	// What used to fire at night, what would never fire or at once, and alerts without a test.
	{
		"alerts", "prometheus/alerts.yml", `max by (queue) (penstock_queue_state{state="stalled"}) == 1`,
		`max by (queue) (penstock_jobs{state="waiting"}) > 0 and max by (queue) (penstock_outflow_per_second) == 0`,
		"PenstockStalled is quiet: its quota is used up",
	},
	{
		"alerts", "prometheus/alerts.yml", `penstock_queue_state{state="stalled"}) == 1`,
		`penstock_queue_state{state="stalled"}) == 2`, "PenstockStalled fires",
	},
	{
		"alerts", "prometheus/alerts.yml", "{state=\"no_worker\"}) == 1\n        for: 15m", "{state=\"no_worker\"}) == 1",
		"PenstockNoWorker is quiet",
	},
	{
		"alerts", "prometheus/alerts.yml", `or sum by (queue) (rate(penstock_departures_total[5m]))`,
		`or sum by (queue) (rate(penstock_departures_total{queue="_else"}[5m]))`, "PenstockLostSlots fires",
	},
	{
		"alerts", "prometheus/alerts.yml", "alert: PenstockHeld", "alert: PenstockHolds",
		"PenstockHolds: a test has it quiet: false, and firing: false",
	},
	{
		"runbook", runbook, "### PenstockHeld\n", "### PenstockHolds\n",
		"a section about PenstockHolds, and there is no such alert",
	},
	{
		"runbook", runbook, "### PenstockHeld\n", "### PenstockHolds\n",
		"PenstockHeld: docs/runbook.md does not say what it means",
	},
	{
		"runbook", runbook, "The queue's jobs have waited for an hour. Perhaps an operator forgot the pause.\n", "",
		"PenstockPaused: docs/runbook.md does not say what it means",
	},
	{"runbook", runbook, "### PenstockPaused\n", "### PenstockHeld\n", "two sections about PenstockHeld"},
	{
		"runbook", "prometheus/alerts.yml", "runbook.md#penstockheld", "runbook.md#penstockhold",
		"PenstockHeld: its runbook_url is",
	},

	{
		"recording", "prometheus/recording.yml", "rate(penstock_refused_total", "rate(penstock_refusals_total",
		"does not tell of penstock_refusals_total",
	},
	{
		"recording", "prometheus/recording.yml", "sum by (rule, outcome) (", "sum by (rule, reason) (",
		"it is by reason, which none of its metrics has",
	},
	{
		"recording", "prometheus/recording.yml", "record: queue_state:penstock_jobs:max", "record: queue:penstock_jobs:max",
		"queue:penstock_jobs:max is by [queue state]",
	},
	{"recording", "prometheus/recording.yml", "(penstock_jobs)", "(penstock_jobs", "promtool check rules"},
	{
		"recording", "grafana/overview.json", "queue:penstock_lost_slots:rate5m",
		"sum by (queue) (rate(penstock_lost_slots_total[5m]))", "queue:penstock_lost_slots:rate5m is written out",
	},
	{
		"recording", "grafana/overview.json", "queue:penstock_lost_slots:rate5m", "penstock_queues",
		"queue:penstock_lost_slots:rate5m is asked for by 1 panels",
	},
	{"grafana", "grafana/store.json", "max(penstock_store_used_bytes)", "max(penstock_store_used_bytes", "unclosed left"},
	{
		"grafana", "grafana/store.json", "time() - penstock_refreshed", "time() - penstock_read",
		"does not tell of penstock_read",
	},
	{
		"grafana", "grafana/store.json", "sum by (result)", "sum by (outcome)",
		"it is by outcome, which none of its metrics",
	},
	{"grafana", "grafana/store.json", "penstock-store", "store", `its uid is "store", want "penstock-store"`},
	{"grafana", "grafana/lanes.json", `reason=\"lane_full\"`, `reason=\"lanes_full\"`, `{reason="lanes_full"}`},
	{
		"grafana", "grafana/lanes.json", `max by (queue) (penstock_lanes{queue`, `max by (queue) (penstock_lanes{lane`,
		"no label lane",
	},
	{"grafana", "grafana/lanes.json", `rule=~\"$rule\"`, `rule=~\"$rules\"`, "$rules cannot be chosen"},
	{
		"grafana", "grafana/lanes.json", "label_values(penstock_jobs, queue)", "label_values(penstock_lanes, lane)",
		"nothing is chosen",
	},
	{
		"grafana", "grafana/lanes.json", `"legendFormat": "{{rule}}"`, `"legendFormat": "{{key}}"`,
		"its legend has {{key}}",
	},
	{"grafana", "grafana/queue.json", `"w": 6`, `"w": 14`, "it lies on"},
	{"grafana", "grafana/queue.json", `"unit": "bytes"`, `"unit": ""`, "no unit"},
	{"grafana", "grafana/queue.json", "Jobs in the queue, by state.", "Jobs in it", "is not a sentence"},
	{
		"grafana", "grafana/queue.json",
		`sum by (queue) (penstock_handlers_in_use{queue=~\"$queue\",queue=~\"$team([-._].*)?\"})`,
		`max by (queue) (penstock_queue_bytes{queue=~\"$queue\",queue=~\"$team([-._].*)?\"})`, "asks what",
	},
	{
		"grafana", "grafana/queue.json", `max by (queue) (penstock_paused{queue=~\"$team`,
		`max by (queue) (penstock_pause{queue=~\"$team`, "does not tell of penstock_pause",
	},
	{
		"alerts", "prometheus/alerts.yml", "> 600 + 1 / max by (queue) (penstock_queue_rate)", "> 600",
		"PenstockDelay is quiet: one job an hour leaves",
	},
	{
		"alerts", "prometheus/alerts.yml", `{state=~"paused|parent_paused|no_drainer|no_worker|`,
		`{state=~"no_drainer|no_worker|`,
		"PenstockNever is quiet: it is paused",
	},
}
