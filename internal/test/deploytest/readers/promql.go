package main

import (
	"encoding/json"
	"fmt"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// expression is what a PromQL expression selects.
type expression struct {
	Selectors []selector
	// By has the labels that its aggregations keep, if there are any.
	By         []string
	Aggregates bool
}

// selector is one metric of an expression.
type selector struct {
	Metric   string
	Matchers []matcher
}

type matcher struct{ Label, Op, Value string }

func promql(text []byte) (any, error) {
	var asked []string
	if err := json.Unmarshal(text, &asked); err != nil {
		return nil, err
	}
	reader := parser.NewParser(parser.Options{})
	read := make([]expression, len(asked))
	for i, source := range asked {
		parsed, err := reader.ParseExpr(source)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
			switch node := node.(type) {
			case *parser.AggregateExpr:
				if node.Op == parser.TOPK || node.Op == parser.BOTTOMK { // they choose series, and keep their labels
					return nil
				}
				read[i].Aggregates = true
				read[i].By = append(read[i].By, node.Grouping...)
			case *parser.VectorSelector:
				read[i].Selectors = append(read[i].Selectors, selected(node))
			}
			return nil
		})
	}
	return read, nil
}

func selected(node *parser.VectorSelector) selector {
	s := selector{Metric: node.Name}
	for _, m := range node.LabelMatchers {
		if m.Name != model.MetricNameLabel {
			s.Matchers = append(s.Matchers, matcher{m.Name, m.Type.String(), m.Value})
		}
	}
	return s
}
