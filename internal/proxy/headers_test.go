package proxy

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestRequestHeaders(t *testing.T) {
	const text = "POST /x HTTP/1.1\r\nHost: h\r\nConnection: a, B ,,\r\nConnection: c\r\nA: 1\r\nb: 2\r\nC: 3\r\n" +
		"D: 4\r\n" +
		"Penstock-Lane: x\r\npenstock-x: y\r\nTE: trailers\r\nHTTP2-Settings: x\r\nUpgrade: h2c\r\nExpect: 100-continue\r\n" +
		"Authorization: Bearer x\r\nX-Api-Key: y\r\nCookie: z\r\nContent-Length: 0\r\nVia: 1.0 other\r\n\r\n"
	for _, c := range []struct {
		pass bool
		want string
	}{
		{false, "map[D:[4] User-Agent:[Penstock] Via:[1.0 other 1.1 penstock-q]]"},
		{true, "map[Authorization:[Bearer x] D:[4] User-Agent:[Penstock] Via:[1.0 other 1.1 penstock-q] X-Api-Key:[y]]"},
	} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			t.Fatal(err)
		}
		before := fmt.Sprint(r.Header)
		if got := fmt.Sprint(requestHeaders(r, via+"q", c.pass)); got != c.want {
			t.Errorf("%v: %s, want %s", c.pass, got, c.want)
		}
		if after := fmt.Sprint(r.Header); after != before {
			t.Errorf("the caller's headers were changed: %s", after)
		}
	}
}

func TestLoops(t *testing.T) {
	for via, want := range map[string]bool{
		"": false, "1.1 penstock-q": true, "1.1 other, 1.1 penstock-q": true, "1.1 penstock-q2": false,
		"1.1 penstock-":               false,
		"1.0 a,1.1 penstock-q ,1.1 b": true, "1.1 PENSTOCK-Q": false,
	} {
		r := &http.Request{Header: http.Header{"Via": {"1.1 first", via}}}
		if got := loops(r, "1.1 penstock-q"); got != want {
			t.Errorf("%q: %v", via, got)
		}
	}
}

// Two deployments may have queues of the same name, and the one may call the other.
func TestMarkOf(t *testing.T) {
	mark := markOf("q", "https://a.example/")
	for _, other := range []string{markOf("q", "https://b.example/"), markOf("p", "https://a.example/")} {
		if other == mark || strings.Contains(other, "q") {
			t.Errorf("%s, other than %s", other, mark)
		}
	}
	if again := markOf("q", "https://a.example/"); again != mark {
		t.Errorf("%s, then %s", mark, again)
	}
}

func TestTrailersThatPass(t *testing.T) {
	h := http.Header{
		"X-Sum": {"1"}, "Content-Length": {"2"}, "Authorization": {"3"}, "Transfer-Encoding": {"4"}, "Penstock-Waited": {"5"},
		"Set-Cookie": {"6"}, "Host": {"7"},
	}
	if got := fmt.Sprint(trailers(h)); got != "map[X-Sum:[1]]" {
		t.Error(got)
	}
}
