package cli

import "testing"

func TestSinkFlags(t *testing.T) {
	for _, c := range []struct {
		says string
		args []string
	}{
		{"--fail", []string{"--fail", "110%"}},
		{"--fail", []string{"--fail", "-1%"}},
		{"--hang", []string{"--hang", "NaN"}},
		{"at most 1", []string{"--fail", "60%", "--drop", "60%"}},
		{"--insecure", []string{"--listen", "0.0.0.0:0"}},
		{"--insecure", []string{"--listen", ":0"}},
		{"HOST:PORT", []string{"--listen", "9000"}},
		{"--smtp 0.0.0.0:0", []string{"--listen", "127.0.0.1:0", "--smtp", "0.0.0.0:0"}},
		{"--smtp \"2525\"", []string{"--listen", "127.0.0.1:0", "--smtp", "2525"}},
		{"--latency", []string{"--latency", "-1s"}},
		{"status 700", []string{"--status", "700"}},
	} {
		expect(t, ExitUsage, "", c.says, append([]string{"sink"}, c.args...)...)
	}
}
