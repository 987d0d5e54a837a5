package api_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api/httpio"
)

// The type of a problem is the URL of its page on the documentation site, and the site, the OpenAPI document and the
// clients have the same URL. The tests in site/ check that the site generates these pages.
func TestTypesOfProblemsArePagesOfTheSite(t *testing.T) {
	for _, reason := range httpio.Reasons() {
		var sent struct{ Type, Reason string }
		body := (&httpio.Problem{Reason: reason}).AppendBody(nil, "")
		if err := json.Unmarshal(body, &sent); err != nil || sent.Type != httpio.ProblemBase+reason.Code ||
			sent.Reason != reason.Code {
			t.Errorf("%s is sent as %s", reason.Code, body)
		}
	}

	var site struct{ Homepage string }
	if err := json.Unmarshal([]byte(read(t, "../../site/package.json")), &site); err != nil {
		t.Fatal(err)
	}
	if want := site.Homepage + "problems/"; httpio.ProblemBase != want {
		t.Errorf("ProblemBase is %s, but site/package.json has the error codes at %s", httpio.ProblemBase, want)
	}

	c, err := published()
	if err != nil {
		t.Fatal(err)
	}
	field, _ := c.find("/components/schemas/Problem")
	kind := field["properties"].(map[string]any)["type"].(map[string]any)
	if about := kind["description"].(string); !strings.Contains(about, " "+httpio.ProblemBase+" ") {
		t.Errorf("the OpenAPI document says of the type: %s", about)
	}
	if example := kind["examples"].([]any)[0]; example != httpio.ProblemBase+httpio.ReasonFull.Code {
		t.Errorf("the example of the OpenAPI document is %v", example)
	}

	for _, client := range []string{
		"client/middleware.go", "clients/typescript/src/middleware.ts", "clients/python/src/penstock/middleware.py",
	} {
		if !strings.Contains(read(t, "../../"+client), `= "`+httpio.ProblemBase+`"`) {
			t.Errorf("%s answers with another type than %s", client, httpio.ProblemBase)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
