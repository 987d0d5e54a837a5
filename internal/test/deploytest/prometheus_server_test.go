package deploytest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v4"
)

// prometheusServer is a Prometheus that scrapes once a second.
type prometheusServer struct{ url string }

var prometheusListens = regexp.MustCompile(`msg="?Listening on"? .*address=(\S+)`)

// startPrometheus runs the one that promtool came with until the test ends, with the rules that prometheus.yml has. The
// targets are HOST:PORT by the names of its jobs.
func startPrometheus(t *testing.T, deploy files, targets map[string]string) *prometheusServer {
	t.Helper()
	program, err := exec.LookPath(filepath.Join(filepath.Dir(promtool(t)), "prometheus"))
	if err != nil {
		t.Fatalf("prometheus is not beside promtool: %v; they come in one package, which scripts/promtool.sh installs", err)
	}
	var s scraping
	if err := yaml.Load([]byte(deploy["prometheus/prometheus.yml"]), &s, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range s.RuleFiles {
		write(t, filepath.Join(dir, name), deploy["prometheus/"+name])
	}
	var config strings.Builder
	fmt.Fprintf(&config, "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%s]\nscrape_configs:\n",
		strings.Join(s.RuleFiles, ", "))
	for _, job := range s.ScrapeConfigs {
		if targets[job.JobName] == "" {
			t.Fatalf("nothing runs for the job %s", job.JobName)
		}
		fmt.Fprintf(&config, "- {job_name: %s, static_configs: [{targets: [%q]}]}\n", job.JobName, targets[job.JobName])
	}
	write(t, filepath.Join(dir, "prometheus.yml"), config.String())

	run := exec.CommandContext( // it is told to end, below
		context.WithoutCancel(t.Context()), program, "--config.file", filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", "127.0.0.1:0",
	)
	said, err := run.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	at, ended, log := make(chan string, 1), make(chan struct{}), strings.Builder{}
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(said); lines.Scan(); {
			fmt.Fprintln(&log, lines.Text())
			if m := prometheusListens.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case at <- m[1]:
				default:
				}
			}
		}
	}()
	t.Cleanup(func() {
		_ = run.Process.Signal(syscall.SIGTERM) // it may have ended, which Wait tells
		<-ended
		if err := run.Wait(); err != nil || t.Failed() {
			t.Errorf("prometheus ended with %v:\n%s", err, log.String())
		}
	})
	select {
	case address := <-at:
		server := &prometheusServer{"http://" + address}
		poll(t, "prometheus is ready", func() error {
			_, err := get(t, server.url+"/-/ready")
			return err
		})
		return server
	case <-ended:
		t.Fatal("prometheus ended, or does not say where it listens")
	case <-t.Context().Done():
	}
	return nil
}

// series are what a query finds now, but for those without a number.
func (p *prometheusServer) series(t *testing.T, query string) (n int, err error) {
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := p.ask(t, "/api/v1/query?query="+url.QueryEscape(query), &answer); err != nil {
		return 0, err
	}
	for _, series := range answer.Data.Result {
		switch series.Value[1] {
		case "NaN", "+Inf", "-Inf":
		default:
			n++
		}
	}
	return n, nil
}

// unhealthy are the rules that cannot be evaluated, or were not yet.
func (p *prometheusServer) unhealthy(t *testing.T) (names []string, err error) {
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if err := p.ask(t, "/api/v1/rules", &answer); err != nil {
		return nil, err
	}
	if len(answer.Data.Groups) == 0 {
		return nil, fmt.Errorf("it has no rules")
	}
	for _, group := range answer.Data.Groups {
		for _, r := range group.Rules {
			if r.Health != "ok" {
				names = append(names, r.Name+": "+r.Health+" "+r.LastError)
			}
		}
	}
	return names, nil
}

func (p *prometheusServer) ask(t *testing.T, path string, into any) error {
	text, err := get(t, p.url+path)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), into)
}
