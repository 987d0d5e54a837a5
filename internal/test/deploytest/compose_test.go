package deploytest

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// project is compose.yaml as docker compose understands it.
type project struct {
	Services map[string]service
	Networks map[string]struct{ Internal bool }
	Volumes  map[string]any
	Configs  map[string]struct{ File string }
}

type service struct {
	Image               string
	Build               *struct{ Context, Dockerfile string }
	Entrypoint, Command []string
	Environment         map[string]string
	Restart, User       string
	ReadOnly            bool                                  `json:"read_only"`
	CapDrop             []string                              `json:"cap_drop"`
	SecurityOpt         []string                              `json:"security_opt"`
	StopGracePeriod     string                                `json:"stop_grace_period"`
	DependsOn           map[string]struct{ Condition string } `json:"depends_on"`
	Networks            map[string]any
	Healthcheck         *struct{ Test []string }
	Ports               []struct {
		HostIP    string `json:"host_ip"`
		Published string
		Target    int
	}
	Volumes []mount
	Configs []struct{ Source, Target string }
	Deploy  *struct {
		Replicas  *int
		Resources struct{ Limits, Reservations *struct{ Memory string } }
	}
}

type mount struct{ Type, Source, Target string }

func (s *service) argv() []string { return append(slices.Clone(s.Entrypoint), s.Command...) }

// ours reports whether a service runs one of our programs.
func (s *service) ours() bool { return s.Build != nil }

// composePassword is what Redis has there.
const composePassword = "hunter2"

func readCompose(t *testing.T, deploy files, environment ...string) (*project, error) {
	t.Helper()
	p := &project{}
	err := readAs(t, deploy["compose.yaml"], p, append([]string{
		"compose", "PENSTOCK_REDIS_PASSWORD=" + composePassword,
	}, environment...)...)
	return p, err
}

// What is where, and that all of it is there.
func composeFaults(t *testing.T, deploy files) (found faults) {
	p, err := readCompose(t, deploy)
	if err != nil {
		found.add("compose.yaml: %v", err)
		return found
	}
	for name, replicas := range map[string]int{
		"redis": 1, "nats-1": 1, "nats-2": 1, "nats-3": 1, "ingress-1": 1, "ingress-2": 1, "drainer": 2, "prometheus": 1,
		"grafana": 1,
	} {
		s, ok := p.Services[name]
		if !ok {
			found.add("there is no %s", name)
			continue
		}
		got := 1
		if s.Deploy != nil && s.Deploy.Replicas != nil {
			got = *s.Deploy.Replicas
		}
		if got != replicas {
			found.add("%s: %d replicas, want %d", name, got, replicas)
		}
	}
	kept := map[string]string{}
	for name, s := range p.Services {
		watching := name == "prometheus" || name == "grafana"
		published := strings.HasPrefix(name, "ingress-") || watching
		for _, port := range s.Ports {
			if !published || port.HostIP != "127.0.0.1" {
				found.add("%s: publishes %d on %q; only ingress and what watches do, on 127.0.0.1", name, port.Target, port.HostIP)
			}
		}
		stored := name == "redis" || strings.HasPrefix(name, "nats-")
		for network := range s.Networks {
			if stored && !p.Networks[network].Internal {
				found.add("%s: is on %s, which is not internal", name, network)
			}
		}
		for _, v := range s.Volumes {
			if other, ok := kept[v.Source]; ok {
				found.add("%s and %s share the volume %s", name, other, v.Source)
			}
			kept[v.Source] = name
		}
		if (stored || watching) && !slices.ContainsFunc(s.Volumes, func(m mount) bool {
			return m.Type == "volume" && m.Source != ""
		}) {
			found.add("%s: keeps what it has in no named volume", name)
		}
		for _, c := range s.Configs {
			file := strings.TrimPrefix(p.Configs[c.Source].File, "/deploy/")
			if _, ok := deploy[file]; !ok {
				found.add("%s: there is no %s in deploy/ to mount at %s", name, file, c.Target)
			}
		}
	}
	found = append(found, initFaults(t, deploy)...)
	return found
}

// A flushed Redis must not quietly be made a store, and two at once would each make their own.
func initFaults(t *testing.T, deploy files) (found faults) {
	for asked, want := range map[string]int{"": 0, "PENSTOCK_INIT=true": 1} {
		var environment []string
		if asked != "" {
			environment = append(environment, asked)
		}
		p, err := readCompose(t, deploy, environment...)
		if err != nil {
			found.add("compose.yaml with %q: %v", asked, err)
			continue
		}
		makers := 0
		for _, s := range p.Services {
			if s.Environment["PENSTOCK_INIT"] == "true" || slices.Contains(s.argv(), "--init") {
				makers++
			}
		}
		if makers != want {
			found.add("with %q, %d services may make the store, want %d", asked, makers, want)
		}
	}
	return found
}

var versioned = regexp.MustCompile(`^[a-z0-9./-]+:v?\d+\.\d+\.\d+([.-][a-z0-9.-]+)?(@sha256:[0-9a-f]{64})?$`)

// Each service by itself: what every one must have, and what it runs.
func serviceFaults(t *testing.T, deploy files) (found faults) {
	p, err := readCompose(t, deploy)
	if err != nil {
		found.add("compose.yaml: %v", err)
		return found
	}
	if _, err := readCompose(t, deploy, "PENSTOCK_REDIS_PASSWORD="); err == nil {
		found.add("compose.yaml: Redis starts without a password")
	}
	if redis := p.Services["redis"]; following(redis.argv(), "--requirepass") != composePassword {
		found.add("redis: it has no password")
	} else if redis.Environment["REDISCLI_AUTH"] != composePassword {
		found.add("redis: its health check has no password")
	}
	for name, s := range p.Services {
		say := func(ok bool, format string, args ...any) {
			if !ok {
				found.add(name+": "+format, args...)
			}
		}
		say(s.ours() || versioned.MatchString(s.Image), "the image %q is not pinned to a version", s.Image)
		say(s.Restart == "unless-stopped", "restart is %q", s.Restart)
		say(s.ReadOnly, "its file system can be written to")
		say(slices.Contains(s.CapDrop, "ALL"), "it has capabilities")
		say(slices.Contains(s.SecurityOpt, "no-new-privileges:true"), "it may get privileges")
		say(s.Healthcheck != nil && len(s.Healthcheck.Test) > 1 &&
			s.Healthcheck.Test[0] == "CMD", "it has no health check, or one that needs a shell")
		say(s.Deploy != nil && s.Deploy.Resources.Limits != nil && s.Deploy.Resources.Reservations != nil &&
			s.Deploy.Resources.Limits.Memory != "" && s.Deploy.Resources.Reservations.Memory != "",
			"its memory has no limit or no reservation")
		say(s.StopGracePeriod != "", "stop_grace_period is not said")
		for other, d := range s.DependsOn {
			say(d.Condition == "service_healthy", "does not wait until %s is healthy", other)
		}
		if s.ours() {
			found = append(found, ourFaults(t, name, &s, p)...)
			dockerfile := path.Join(s.Build.Context, s.Build.Dockerfile)
			say(dockerfile == "/deploy/Dockerfile", "it is built from %s", dockerfile)
		}
	}
	return found
}

// ourFaults are those of a service that runs one of our programs.
func ourFaults(t *testing.T, name string, s *service, p *project) (found faults) {
	program, wrong := started(t, s.argv(), s.Environment)
	for _, fault := range wrong {
		found.add("%s: %s", name, fault)
	}
	if grace, err := time.ParseDuration(s.StopGracePeriod); err != nil || grace <= program.grace {
		found.add("%s: stop_grace_period %s is not above its grace of %s", name, s.StopGracePeriod, program.grace)
	}
	listen := option(s.argv(), "--listen")
	_, port, _ := strings.Cut(listen, ":")
	if beside := option(s.argv(), "--health-listen"); beside != "" {
		_, port, _ = strings.Cut(beside, ":")
	}
	want := []string{"CMD", "probe", "http://127.0.0.1:" + port + "/readyz"}
	if s.Healthcheck == nil || !slices.Equal(s.Healthcheck.Test, want) {
		found.add("%s: it listens on %s, and its health check is not %v", name, listen, want)
	}
	for _, published := range s.Ports {
		if listen != fmt.Sprint("0.0.0.0:", published.Target) {
			found.add("%s: publishes %d and listens on %s", name, published.Target, listen)
		}
	}
	for _, variable := range []string{"PENSTOCK_REDIS", "PENSTOCK_NATS"} {
		for _, one := range strings.Split(s.Environment[variable], ",") {
			u, err := url.Parse(one)
			if err != nil {
				found.add("%s: %s: %v", name, variable, err)
				continue
			}
			if _, ok := p.Services[u.Hostname()]; !ok {
				found.add("%s: %s names %q, which is no service", name, variable, u.Hostname())
			}
			if _, ok := s.DependsOn[u.Hostname()]; !ok {
				found.add("%s: does not wait for %q", name, u.Hostname())
			}
		}
	}
	return found
}

// following is the word behind a flag in a command line.
func following(argv []string, flag string) string {
	if at := slices.Index(argv, flag); at >= 0 && at+1 < len(argv) {
		return argv[at+1]
	}
	return ""
}

// option is the value of --name=value in a command line.
func option(argv []string, name string) string {
	for _, arg := range argv {
		if value, ok := strings.CutPrefix(arg, name+"="); ok {
			return value
		}
	}
	return ""
}
