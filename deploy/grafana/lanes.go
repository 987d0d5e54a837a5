package grafana

var lanes = Dashboard{
	Name: "lanes", Title: "Lanes and rules", Picks: []Pick{byQueue, byRule},
	About: "Lanes that wait and refuse, and what the rules let through; lanes and keys are labels of nothing.",
	Rows: []Row{
		{Title: "Lanes: what is moving", Height: 8, Panels: []Panel{
			{
				Title: "Lanes with jobs", Kind: Chart, Width: 8, Unit: Count,
				About:   "In how many lanes jobs wait for their turn.",
				Queries: one(`max by (queue) (penstock_lanes{`+ofQueues+`})`, "{{queue}}"),
			},
			{
				Title: "Waiting in each lane", Kind: Chart, Width: 8, Unit: Count,
				About: "Jobs that wait, on average of the lanes that have some; with one lane it is the queue.",
				Queries: one(
					`sum by (queue) (queue_state:penstock_jobs:max{`+ofQueues+`,state="waiting"})`+
						` / (max by (queue) (penstock_lanes) > 0)`, "{{queue}}",
				),
			},
			{
				Title: "Refused: lane full", Kind: Chart, Width: 8, Unit: Rate,
				About: "One key gets more than its lane's rate lets out: raise it in lanes.overrides, or offer less.",
				Queries: quiet(
					`queue_reason:penstock_refused:rate5m{`+ofQueues+`,reason="lane_full"}`, "{{queue}}",
					"lanes that were full are counted from the first refusal on; "+fromFirst,
				),
			},
		}},
		{Title: "Rules: what is moving", Height: 8, Panels: []Panel{
			{
				Title: "Decisions", Kind: Chart, Width: 12, Unit: Rate, Stacked: true,
				About:   "What was asked of the rules, by answer; a shadowed job passed a rule that only counts.",
				Queries: one(`sum by (outcome) (rule_outcome:penstock_rule_decisions:rate5m{rule=~"$rule"})`, "{{outcome}}"),
			},
			{
				Title: "Refused share", Kind: Chart, Width: 12, Unit: Share,
				About: "The share that each rule refuses, or would: what a rule in shadow would do if it were turned on.",
				Queries: one(
					`sum by (rule) (rule_outcome:penstock_rule_decisions:rate5m{rule=~"$rule",outcome=~"refused|shadowed"})`+
						` / (sum by (rule) (rule_outcome:penstock_rule_decisions:rate5m) > 0)`, "{{rule}}",
				),
			},
		}},
		{Title: "Rules: why are jobs refused", Height: 8, Panels: []Panel{
			{
				Title: "Refused by rules", Kind: Chart, Width: 8, Unit: Rate,
				About: "Jobs that a rule kept out of their queue.",
				Queries: quiet(
					`queue_reason:penstock_refused:rate5m{`+ofQueues+`,reason="limit_reached"}`, "{{queue}}",
					"what rules refused is counted by queue from the first job on; "+fromFirst,
				),
			},
			{
				Title: "Out of keys, or gone", Kind: Chart, Width: 8, Unit: Rate,
				About: "Refused only because the rule holds max_keys keys, or because a rule that a queue names is gone.",
				Queries: []Query{
					{
						Expr:   `sum by (rule) (rate(penstock_rule_full_total{rule=~"$rule"}[$__rate_interval]))`,
						Legend: "{{rule}}: max_keys",
						Quiet:  "a rule counts from the first refusal for want of keys; " + fromFirst,
					},
					{
						Expr:   `sum by (rule) (rate(penstock_rule_missing_total[$__rate_interval]))`,
						Legend: "{{rule}}: gone",
						Quiet:  "it is counted from the first job on whose rule is gone; " + fromFirst,
					},
				},
			},
			{
				Title: "Not answered", Kind: Chart, Width: 8, Unit: Rate,
				About: "Questions without an answer, calls that the store did not answer, and what away decided then.",
				Queries: []Query{
					{
						Expr:   `sum by (reason) (rate(penstock_rule_failures_total{rule=~"$rule"}[$__rate_interval]))`,
						Legend: "failed: {{reason}}", Quiet: "it is counted from the first failed question on; " + fromFirst,
					},
					{
						Expr:   `sum by (reason) (rate(penstock_rule_store_errors_total[$__rate_interval]))`,
						Legend: "store: {{reason}}", Quiet: "it is counted once the store does not answer; " + fromFirst,
					},
					{
						Expr:   `sum by (decided) (rate(penstock_rule_away_total{rule=~"$rule"}[$__rate_interval]))`,
						Legend: "away: {{decided}}", Quiet: "away decides only while the store is; there is none before",
					},
				},
			},
		}},
		{Title: "What it costs", Height: 8, Panels: []Panel{{
			Title: "Time a decision takes", Kind: Chart, Width: 24, Unit: Seconds,
			About: "99th percentile of the store's answer: a take asks by name, an append decides with the job.",
			Queries: one(
				quantile(0.99, "penstock_rule_decision_seconds", "by", `rule=~"$rule"`), "{{by}}",
			),
		}}},
	},
}
