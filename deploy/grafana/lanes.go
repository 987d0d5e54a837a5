package grafana

var lanes = Dashboard{
	Name: "lanes", Title: "Lanes and rules", Picks: []Pick{byTeam, byQueue, byRule},
	About: "Waiting and full lanes, and decisions of rules; individual lanes and keys have no series.",
	Rows: []Row{
		{Title: "Lanes: what is moving", Height: 8, Panels: []Panel{
			{
				Title: "Lanes with jobs", Kind: Chart, Width: 8, Unit: Count,
				About:   "Number of lanes with waiting jobs.",
				Queries: one(`max by (queue) (penstock_lanes{`+ofQueues+`})`, "{{queue}}"),
			},
			{
				Title: "Waiting in each lane", Kind: Chart, Width: 8, Unit: Count,
				About: "Average number of waiting jobs per lane with jobs; with one lane, of the queue.",
				Queries: one(
					`sum by (queue) (queue_state:penstock_jobs:max{`+ofQueues+`,state="waiting"})`+
						` / (max by (queue) (penstock_lanes) > 0)`, "{{queue}}",
				),
			},
			{
				Title: "Refused: lane full", Kind: Chart, Width: 8, Unit: Rate,
				About: "A lane gets more jobs than its rate lets out: raise the rate in lanes.overrides, or send fewer jobs.",
				Queries: quiet(
					`queue_reason:penstock_refused:rate5m{`+ofQueues+`,reason="lane_full"}`, "{{queue}}",
					fromFirst,
				),
			},
		}},
		{Title: "Rules: what is moving", Height: 8, Panels: []Panel{
			{
				Title: "Decisions", Kind: Chart, Width: 12, Unit: Rate, Stacked: true,
				About:   "Decisions of rules by outcome; a shadowed refusal comes from a rule that only counts.",
				Queries: one(`sum by (outcome) (rule_outcome:penstock_rule_decisions:rate5m{rule=~"$rule"})`, "{{outcome}}"),
			},
			{
				Title: "Refused share", Kind: Chart, Width: 12, Unit: Share,
				About: "Share of requests that each rule refuses, or would refuse if it did not only count.",
				Queries: one(
					`sum by (rule) (rule_outcome:penstock_rule_decisions:rate5m{rule=~"$rule",outcome=~"refused|shadowed"})`+
						` / (sum by (rule) (rule_outcome:penstock_rule_decisions:rate5m) > 0)`, "{{rule}}",
				),
			},
		}},
		{Title: "Rules: why are jobs refused", Height: 8, Panels: []Panel{
			{
				Title: "Refused by rules", Kind: Chart, Width: 8, Unit: Rate,
				About: "Jobs that a rule refused.",
				Queries: quiet(
					`queue_reason:penstock_refused:rate5m{`+ofQueues+`,reason="limit_reached"}`, "{{queue}}",
					fromFirst,
				),
			},
			{
				Title: "Out of keys, or missing", Kind: Chart, Width: 8, Unit: Rate,
				About: "Refusals because a rule holds max_keys keys, or because the rule of a queue is missing.",
				Queries: []Query{
					{
						Expr:   `sum by (rule) (rate(penstock_rule_full_total{rule=~"$rule"}[$__rate_interval]))`,
						Legend: "{{rule}}: max_keys",
						Quiet:  fromFirst,
					},
					{
						Expr:   `sum by (rule) (rate(penstock_rule_missing_total[$__rate_interval]))`,
						Legend: "{{rule}}: missing",
						Quiet:  fromFirst,
					},
				},
			},
			{
				Title: "Not answered", Kind: Chart, Width: 8, Unit: Rate,
				About: "Failed takes, calls that the store did not answer, and decisions of the away setting.",
				Queries: []Query{
					{
						Expr:   `sum by (reason) (rate(penstock_rule_failures_total{rule=~"$rule"}[$__rate_interval]))`,
						Legend: "failed: {{reason}}", Quiet: fromFirst,
					},
					{
						Expr:   `sum by (reason) (rate(penstock_rule_store_errors_total[$__rate_interval]))`,
						Legend: "store: {{reason}}", Quiet: fromFirst,
					},
					{
						Expr:   `sum by (decided) (rate(penstock_rule_away_total{rule=~"$rule"}[$__rate_interval]))`,
						Legend: "away: {{decided}}", Quiet: fromFirst,
					},
				},
			},
		}},
		{Title: "What it costs", Height: 8, Panels: []Panel{{
			Title: "Duration of decisions", Kind: Chart, Width: 24, Unit: Seconds,
			About: "99th percentile of store calls, for takes by name and for appends.",
			Queries: one(
				quantile(0.99, "penstock_rule_decision_seconds", "by", `rule=~"$rule"`), "{{by}}",
			),
		}}},
	},
}
