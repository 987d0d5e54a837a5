package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAuthorizationHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		secret, made := r.token("", Grant{View, ""})
		other, _ := NewToken()
		mistyped := secret[:20] + "0" + secret[21:]
		if mistyped == secret {
			mistyped = secret[:20] + "1" + secret[21:]
		}
		const let Code = ""
		for _, c := range []struct {
			name    string
			headers []string
			want    Code
		}{
			{"right", []string{"Bearer " + secret}, let},
			{"lower case", []string{"bearer " + secret}, let},
			{"spaces", []string{"Bearer    " + secret}, let},
			{"none", nil, Missing},
			{"several", []string{"Bearer " + secret, "Bearer " + secret}, Malformed},
			{"several, one empty", []string{"Bearer " + secret, ""}, Malformed},
			{"empty", []string{""}, Malformed},
			{"no token", []string{"Bearer"}, Malformed},
			{"spaces alone", []string{"Bearer   "}, Malformed},
			{"two tokens", []string{"Bearer " + secret + " " + other}, Malformed},
			{"two with a comma", []string{"Bearer " + secret + "," + secret}, Malformed},
			{"two headers in one", []string{"Bearer " + secret + ", Bearer " + secret}, Malformed},
			{"doubled", []string{"Bearer " + secret + secret}, Mistyped},
			{"basic", []string{"Basic " + secret}, Malformed},
			{"no scheme", []string{secret}, Malformed},
			{"a tab", []string{"Bearer\t" + secret}, Malformed},
			{"a parameter", []string{`Bearer token="` + secret + `"`}, Mistyped},
			{"truncated", []string{"Bearer " + secret[:len(secret)-1]}, Mistyped},
			{"truncated to its id", []string{"Bearer " + secret[:secretAt]}, Mistyped},
			{"id alone", []string{"Bearer " + made.ID}, Mistyped},
			{"mistyped", []string{"Bearer " + mistyped}, Mistyped},
			{"upper case", []string{"Bearer " + strings.ToUpper(secret)}, Mistyped},
			{"digest", []string{"Bearer " + string(made.Digest)}, Mistyped},
			{"unknown", []string{"Bearer " + other}, Unknown},
			{"1 MB", []string{"Bearer " + strings.Repeat("a", 1<<20)}, Mistyped},
			{"1 MB behind one that is right", []string{"Bearer " + secret + strings.Repeat("a", 1<<20)}, Mistyped},
			{"1 MB scheme", []string{strings.Repeat("a", 1<<20)}, Malformed},
			{"null", []string{"Bearer " + secret + "\x00"}, Malformed},
			{"not ASCII", []string{"Bearer " + strings.Replace(secret, "p", "\u0440", 1)}, Malformed},
			{"a JWT where there are none", []string{"Bearer eyJhbGciOiJub25lIn0.e30."}, Mistyped},
		} {
			request := httptest.NewRequest(http.MethodGet, "/v1/queues", nil)
			request.Header["Authorization"] = c.headers
			if c.headers == nil {
				delete(request.Header, "Authorization")
			}
			id, err := r.Identify(request)
			if codeOf(err) != c.want || (id == nil) != (err != nil) {
				t.Errorf("%s: %v, %v", c.name, id, err)
			}
			if err != nil {
				for _, part := range []string{secret[secretAt:], other[secretAt:], string(made.Digest), secret[20:30]} {
					if strings.Contains(err.Error(), part) {
						t.Errorf("%s: the error shows it: %v", c.name, err)
					}
				}
			}
		}
		// Elsewhere it is not looked for.
		for _, header := range []string{"Proxy-Authorization", "X-Auth-Token", "Cookie", "Penstock-By"} {
			request := httptest.NewRequest(http.MethodGet, "/v1/queues", nil)
			request.Header.Set(header, "Bearer "+secret)
			if _, err := r.Identify(request); codeOf(err) != Missing {
				t.Errorf("%s: %v", header, err)
			}
		}
		r.stop()
		r.silent(secret[secretAt:], other[secretAt:], string(made.Digest))
	})
}

func TestTokenInURL(t *testing.T) {
	secret, made := NewToken()
	for _, c := range []struct {
		target string
		want   bool
	}{
		{"/v1/queues", false},
		{"/v1/queues?after=mail&limit=10", false},
		{"/v1/tokens/" + made.ID, false},
		{"/v1/queues/ps_mail_x/jobs", false},
		{"/v1/queues/" + strings.Repeat("ps_", 40), false},
		{"/v1/queues?access_token=x", true},
		{"/v1/queues?Access_Token=", true},
		{"/v1/queues?token=x", true},
		{"/v1/queues?token=", true},
		{"/v1/audit?token=" + made.ID, false},
		{"/v1/audit?Token=" + made.ID + "&token=" + secret, true},
		{"/v1/audit?token=" + secret[secretAt:], true},
		{"/v1/audit?access_token=" + made.ID, true},
		{"/v1/queues?a=b&access%5Ftoken=x", true},
		{"/v1/queues?a=" + secret, true},
		{"/v1/queues?" + secret, true},
		{"/v1/queues?a=" + strings.ReplaceAll(secret, "_", "%5f"), true},
		{"/v1/tokens/" + secret, true},
		{"/v1/tokens/" + strings.ReplaceAll(secret, "_", "%5F"), true},
		{"/v1/queues/ps_ps_" + secret + "/jobs", true},
		{"http://user:" + secret + "@localhost/v1/queues", true},
		{"http://" + secret + "@localhost/v1/queues", true},
	} {
		u, err := url.Parse(c.target)
		if err != nil {
			t.Fatal(err)
		}
		if got := TokenInURL(u); got != c.want {
			t.Errorf("%s: %v", c.target, got)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		secret, _ := r.token("", Grant{View, ""})
		request := with(secret)
		request.URL.RawQuery = "access_token=" + secret
		_, err := r.Identify(request)
		if codeOf(err) != InURL || strings.Contains(err.Error(), secret[10:]) {
			t.Error(err)
		}
		r.stop()
	})
}

// secured is a request over a connection with a certificate that was verified.
func secured(c *x509.Certificate) *http.Request {
	request := httptest.NewRequest(http.MethodGet, "/v1/queues", nil)
	request.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}}
	if c != nil {
		request.TLS.VerifiedChains = [][]*x509.Certificate{{c}}
	}
	return request
}

func TestCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		r.app("acme", "acme-*")
		for _, name := range []string{
			"cert:billing.acme.example", "cert:spiffe://acme.example/ns/prod/sa/mailer", "cert:old",
		} {
			s := Subject{Name: name, App: "acme", Grants: []Grant{{Produce, "acme-mail"}}}
			if _, err := r.PutSubject(t.Context(), r.op, s, 0); err != nil {
				t.Fatal(err)
			}
		}
		good := time.Now().Add(time.Hour)
		spiffe := &url.URL{Scheme: "spiffe", Host: "acme.example", Path: "/ns/prod/sa/mailer"}
		for _, c := range []struct {
			name  string
			cert  x509.Certificate
			actor string
			want  Code
		}{
			{"DNS name", x509.Certificate{DNSNames: []string{"billing.acme.example"}}, "cert:billing.acme.example", ""},
			{"upper case", x509.Certificate{DNSNames: []string{"Billing.Acme.Example"}}, "cert:billing.acme.example", ""},
			{
				"second name",
				x509.Certificate{DNSNames: []string{"x.example", "billing.acme.example"}},
				"cert:billing.acme.example", "",
			},
			{
				"URI first",
				x509.Certificate{DNSNames: []string{"billing.acme.example"}, URIs: []*url.URL{spiffe}},
				"cert:spiffe://acme.example/ns/prod/sa/mailer", "",
			},
			{"common name alone", x509.Certificate{Subject: pkix.Name{CommonName: "old"}}, "cert:old", ""},
			{"common name beside others", x509.Certificate{
				Subject: pkix.Name{CommonName: "old"}, DNSNames: []string{"x.example"},
			}, "", Unknown},
			{"unknown", x509.Certificate{DNSNames: []string{"beta.example"}}, "", Unknown},
			{"below", x509.Certificate{DNSNames: []string{"x.billing.acme.example"}}, "", Unknown},
			{"wildcard", x509.Certificate{DNSNames: []string{"*.acme.example"}}, "", Unknown},
			{"looks alike", x509.Certificate{DNSNames: []string{"billing.\u0430cme.example"}}, "", Unknown},
			{"no name", x509.Certificate{}, "", Unknown},
			{"names another way in", x509.Certificate{DNSNames: []string{"unix:0"}}, "", Unknown},
		} {
			c.cert.NotAfter = good
			id, err := r.Identify(secured(&c.cert))
			if codeOf(err) != c.want {
				t.Errorf("%s: %v", c.name, err)
			}
			if err == nil && (id.Actor.Name != c.actor || id.Actor.App != "acme" || !id.Can(Produce, "acme-mail") ||
				id.Can(Produce, "acme-push") || id.Actor.Token != "") {
				t.Errorf("%s: %+v, %v", c.name, id.Actor, id.Grants())
			}
		}

		// A certificate that nobody has verified proves nothing.
		cert := &x509.Certificate{DNSNames: []string{"billing.acme.example"}, NotAfter: good}
		request := secured(cert)
		request.TLS.VerifiedChains = nil
		if _, err := r.Identify(request); codeOf(err) != Missing {
			t.Error(err)
		}
		// A token says more than the certificate of the connection, and a wrong one no less.
		secret, _ := r.token("", Grant{View, ""})
		request = secured(cert)
		request.Header.Set("Authorization", "Bearer "+secret)
		if id, err := r.Identify(request); err != nil || id.Actor.App != "" {
			t.Errorf("%v, %v", id, err)
		}
		request.Header.Set("Authorization", "Bearer "+secret[1:])
		if _, err := r.Identify(request); codeOf(err) != Mistyped {
			t.Error(err)
		}
		// It ends with the certificate, and with the subject.
		id, err := r.Identify(secured(cert))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := r.Watch(t.Context(), id)
		defer cancel()
		if _, err := r.DeleteSubject(t.Context(), r.op, "cert:billing.acme.example", 1); err == nil {
			t.Error("it was deleted at another revision")
		}
		time.Sleep(time.Hour)
		if _, err := r.Identify(secured(cert)); codeOf(err) != Expired {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		if ctx.Err() == nil {
			t.Error("it is watched on")
		}
		r.stop()
	})
}

func TestUnixPeers(t *testing.T) {
	r := newRig(t, newMemory())
	path := filepath.Join(t.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	names := make(chan string, 1)
	server := &http.Server{
		ConnContext: WithPeer, ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			id, err := r.Identify(request)
			if err != nil || !id.Everything(Admin) {
				names <- err.Error()
				return
			}
			names <- id.Actor.Name
		}),
	}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://penstock/", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if got, want := <-names, ByUnix+uidText(os.Geteuid()); got != want {
		t.Errorf("%s, want %s", got, want)
	}

	// Another user is who a subject says.
	other := uint32(os.Geteuid()) + 4711
	name := ByUnix + uidText(int(other))
	from := httptest.NewRequest(http.MethodGet, "/", nil)
	from = from.WithContext(peerContext(from.Context(), other))
	if _, err := r.Identify(from); codeOf(err) != Unknown {
		t.Error(err)
	}
	if _, err := r.PutSubject(t.Context(), r.op, Subject{Name: name, Grants: []Grant{{View, "ses*"}}}, 0); err != nil {
		t.Fatal(err)
	}
	id, err := r.Identify(from)
	if err != nil || id.Actor.Name != name || !id.Can(View, "ses.otp") || id.Everything(View) {
		t.Errorf("%v, %v", id, err)
	}

	// Over TCP nobody is a user of this machine.
	one, two := net.Pipe()
	defer func() { _, _ = one.Close(), two.Close() }()
	tcp := httptest.NewRequest(http.MethodGet, "/", nil)
	if _, err := r.Identify(tcp.WithContext(WithPeer(tcp.Context(), one))); codeOf(err) != Missing {
		t.Error(err)
	}
}

func TestSubjectNames(t *testing.T) {
	for _, name := range []string{
		"cert:a", "cert:spiffe://a/b", "oidc:k8s#system:serviceaccount:acme:worker", "oidc:a#b#c", "unix:1000", "unix:0",
	} {
		if err := ValidateSubjectName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{
		"", "cert:", "oidc:", "oidc:a", "oidc:#b", "oidc:a#", "unix:", "token:x", "CERT:a", "cert:a b", "cert:\u0430",
		"cert:" + strings.Repeat("a", 124), "unix:root", "unix:-1", "unix:01", "unix:4294967296", "unix:1e3",
	} {
		if err := ValidateSubjectName(name); err == nil {
			t.Errorf("%q names a subject", name)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, code := range Codes() {
		r := refuse(code, "x")
		challenged := strings.HasPrefix(r.Challenge(), `Bearer realm="penstock"`)
		if r.Status() < 400 || r.Title() == "" || challenged == (code == Unavailable) {
			t.Errorf("%s: %d %q %q", code, r.Status(), r.Title(), r.Challenge())
		}
		if (slices.Index(Outcomes(), code) < 0) != (code == Forbidden) {
			t.Errorf("%s is not counted", code)
		}
	}
	if got := refuse(Missing, "").Challenge(); got != `Bearer realm="penstock"` {
		t.Errorf("to somebody who has shown nothing: %s", got)
	}
}
