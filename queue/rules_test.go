package queue

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/penstock/penstock/queue/invalid"
)

func TestParseSpecReadsRules(t *testing.T) {
	s, err := ParseSpec([]byte(`{"name":"ses.otp","rate":"1/s","rules":["ses.to","global","ses"]}`))
	if err != nil || !reflect.DeepEqual(s.Rules, []string{"ses.to", "global", "ses"}) {
		t.Fatalf("%+v, %v", s.Rules, err)
	}
	written, err := EncodeSpec(s)
	if back, err := ParseSpec(written); err != nil || !back.Equal(s) {
		t.Errorf("%s came back as %+v, %v", written, back, err)
	}
	if err != nil || !strings.Contains(string(written), `"rules":["ses.to","global","ses"]`) {
		t.Errorf("%s, %v", written, err)
	}
	for _, none := range []string{`{"name":"q","rate":"1/s"}`, `{"name":"q","rate":"1/s","rules":[]}`} {
		if s, err := ParseSpec([]byte(none)); err != nil || s.Rules != nil {
			t.Errorf("%s: %+v, %v", none, s.Rules, err)
		}
	}
	for _, tt := range []struct{ rules, field, reason string }{
		{`null`, "rules", "null"},
		{`"a"`, "rules", "a list"},
		{`{}`, "rules", "a list"},
		{`[null]`, "rules.0", "null"},
		{`["a",1]`, "rules.1", "a string"},
		{`["a",""]`, "rules.1", "not the name of a rule"},
		{`["a","b c"]`, "rules.1", "not the name of a rule"},
		{`["a","b","a"]`, "rules.2", "given twice"},
		{`["a","b","c","d","e","f","g","h","i"]`, "rules", "has 9 entries, the limit is 8"},
	} {
		_, err := ParseSpec([]byte(`{"rate":"1/s","rules":` + tt.rules + `}`))
		var fe *invalid.Error
		if !errors.As(err, &fe) || fe.Field != tt.field || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: got %v, want field %s and %q", tt.rules, err, tt.field, tt.reason)
		}
	}
}
