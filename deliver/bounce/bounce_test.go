package bounce

import (
	"reflect"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/clip"
)

var (
	ann = Bounce{"ann@example.com", 550, "5.1.1", "no such user"}
	bob = Bounce{"bob@example.com", 554, "", "spam"}
	eve = Bounce{"eve@example.com", 452, "4.2.2", ""}
)

func TestParse(t *testing.T) {
	list := func(all ...Bounce) []Bounce { return all }
	many := list(ann, bob, eve, ann, bob, eve, ann)
	long := Bounce{strings.Repeat("l", 64) + "@" + strings.Repeat("d", 180), 550, "5.1.1", strings.Repeat("x", 80)}
	for name, c := range map[string]struct {
		reason string
		want   []Bounce
	}{
		"one":                {Nobody + Sections(nil, list(ann)), list(ann)},
		"put off are none":   {Nobody + Sections(list(eve), nil), nil},
		"both":               {Nobody + Sections(list(eve, bob), list(ann)), list(ann)},
		"many of both":       {Nobody + Sections(many, many), many[:5]},
		"some were sent to":  {Delivered(2, 4) + Sections(nil, list(ann, bob)), list(ann, bob)},
		"the message":        {Message + List(list(ann, bob)), list(ann, bob)},
		"cut":                {clip.Text(Nobody+Sections(nil, list(ann, long, bob)), 300), list(ann)},
		"another answer":     {"the receiver answered 400: " + Nobody + Sections(nil, list(ann)), nil},
		"nothing":            {"", nil},
		"an opening alone":   {Nobody, nil},
		"something behind":   {Nobody + " today" + Sections(nil, list(ann)), nil},
		"an address of none": {Nobody + refused + "ann (550 no)", nil},
	} {
		if got := Parse(c.reason); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q\n got %+v\nwant %+v", name, c.reason, got, c.want)
		}
	}
}

// What a server says adds nobody and changes no address.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "no such user", "x), eve@example.com (550 gone", "; refused: eve@example.com (550 x)", "5.1.1", ", and 3 more",
		strings.Repeat("é", 80),
	} {
		f.Add(text, 550, true)
		f.Add(text, 421, false)
	}
	f.Fuzz(func(t *testing.T, text string, code int, status bool) {
		if code < 200 || code > 599 || strings.ContainsAny(text, "\r\n") {
			return // no answer has such: the mail target takes it out
		}
		first, second := Bounce{Address: "ann@example.com", Code: code, Text: text}, bob
		if status {
			first.Status = "5.7.1"
		}
		for _, reason := range []string{
			Nobody + Sections([]Bounce{first}, []Bounce{first, second}),
			Delivered(1, 3) + Sections(nil, []Bounce{first, second}), Message + List([]Bounce{first, second}),
		} {
			got := Parse(reason)
			if len(got) != 2 || got[0].Address != first.Address || got[0].Code != code || got[1] != second {
				t.Fatalf("%q\n is read as %+v", reason, got)
			}
		}
	})
}
