package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/cli/doctor"
)

func TestDoctorTargets(t *testing.T) {
	url, _ := ingressAndStore(t)
	here := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the doctor asked for %s", r.URL)
	}))
	defer here.Close()
	secure := httptest.NewTLSServer(here.Config.Handler)
	defer secure.Close()
	set := func(name, at string, more ...string) {
		t.Helper()
		expect(t, ExitDone, "", "", append([]string{
			"queue", "set", "-s", url, name, "rate=10/s", "deliver.http.url=" + at,
		}, more...)...)
	}
	set("good", here.URL+"/a")
	allow := []string{"-s", url, "--egress-allow", "127.0.0.1"}
	finds(t, examined(t, allow...), "targets", doctor.OK, "1 host reachable")
	finds(t, examined(t, "-s", url), "targets", doctor.Wrong, "good: deliver.http.url")

	set("tls", secure.URL)
	set("gone", "http://127.0.0.1:1/")
	set("secret", here.URL+"/${secret:NOBODY_KNOWS}")
	found := examined(t, allow...)
	for what, do := range map[string]string{
		"tls: the certificate of":             "openssl s_client -connect " + secure.Listener.Addr().String(),
		"gone: cannot connect to 127.0.0.1:1": "curl -v telnet://127.0.0.1:1",
		"secret: deliver.http.url":            "penstock queue info secret",
	} {
		if got := finds(t, found, "targets", doctor.Wrong, what); !strings.HasPrefix(got, do) {
			t.Errorf("%s: what to do: %s, want %s", what, got, do)
		}
	}
	without(t, found, "targets", doctor.OK)
	found = examined(t, append(allow, "--secret-allow", "NOBODY_KNOWS="+here.Listener.Addr().String()+";secret")...)
	for _, f := range found {
		if strings.HasPrefix(f.What, "secret:") {
			t.Errorf("%+v", f)
		}
	}
}

// The rate of an asynq target is that of what enters asynq. What workers start beside it is theirs.
func TestDoctorAsynq(t *testing.T) {
	url, _ := ingressAndStore(t)
	expect(t, ExitDone, "", "", "queue", "set", "-s", url, "mail", "rate=10/s", "deliver.http.url=http://127.0.0.1:1")
	allow := []string{"-s", url, "--egress-allow", "127.0.0.1"}
	without(t, examined(t, allow...), "targets", doctor.OK)
	expect(t, ExitDone, "", "", "queue", "set", "-s", url, "tasks", "rate=10/s", "deliver.asynq.task=email:send")
	finds(t, examined(t, allow...), "targets", doctor.OK, "1 queue into asynq")
}
