package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// compose returns the project as docker compose would run it: merged, interpolated and normalized. Paths are relative
// to /deploy.
func compose(text []byte, environment []string) (any, error) {
	env := map[string]string{}
	for _, pair := range environment {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("%q: want NAME=VALUE", pair)
		}
		env[name] = value
	}
	project, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir:  "/deploy",
		ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: text}},
		Environment: env,
	})
	if err != nil {
		return nil, err
	}
	raw, err := project.MarshalJSON()
	return json.RawMessage(raw), err
}
