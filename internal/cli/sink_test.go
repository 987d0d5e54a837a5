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
		{"--provider \"azure\"", []string{"--provider", "azure", "--requests", "5/m"}},
		{"--requests: the limit is missing", []string{"--provider", "openai"}},
		{"such as 500/m", []string{"--provider", "openai", "--requests", "500"}},
		{"--burst 6", []string{"--provider", "openai", "--requests", "5/m", "--burst", "6"}},
		{"leave out tokens", []string{"--provider", "plain", "--requests", "5/m", "--tokens", "5/m"}},
		{"need --provider", []string{"--requests", "5/m"}},
		{"need --provider", []string{"--key", "sk-test"}},
		{"--stream-for", []string{"--provider", "openai", "--requests", "5/m", "--stream-for", "-1s"}},
	} {
		expect(t, ExitUsage, "", c.says, append([]string{"sink"}, c.args...)...)
	}
}
