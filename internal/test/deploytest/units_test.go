package deploytest

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"
)

// hardening is what every service must have.
var hardening = map[string]string{
	"NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "AmbientCapabilities": "",
	"ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes", "PrivateDevices": "yes", "PrivateUsers": "yes",
	"ProtectClock": "yes", "ProtectHostname": "yes", "ProtectKernelTunables": "yes", "ProtectKernelModules": "yes",
	"ProtectKernelLogs": "yes", "ProtectControlGroups": "yes", "ProtectProc": "invisible",
	"RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX", "RestrictNamespaces": "yes", "RestrictRealtime": "yes",
	"RestrictSUIDSGID": "yes",
	"LockPersonality":  "yes", "MemoryDenyWriteExecute": "yes", "RemoveIPC": "yes", "KeyringMode": "private",
	"SystemCallArchitectures": "native", "SystemCallFilter": "~@privileged @resources", "SystemCallErrorNumber": "EPERM",
}

func hardeningNames() string { return strings.Join(slices.Sorted(maps.Keys(hardening)), " ") }

// binaries is where README.md puts the programs.
const binaries = "/opt/penstock/bin/"

func unitFaults(t *testing.T, deploy files) (found faults) {
	services := deploy.inDir("systemd", ".service")
	for _, want := range []string{
		"systemd/penstock-up.service", "systemd/penstock-ingress@.service", "systemd/penstock-drainer@.service",
	} {
		if !slices.Contains(services, want) {
			found.add("there is no %s", want)
		}
	}
	environment, err := parseEnv(deploy["systemd/penstock.env"])
	if err != nil {
		found.add("systemd/penstock.env: %v", err)
	}
	for _, name := range services {
		u, err := parseUnit(deploy[name])
		if err != nil {
			found.add("%s: %v", name, err)
			continue
		}
		for _, fault := range oneUnitFaults(t, name, u, environment) {
			found.add("%s: %s", name, fault)
		}
		found = append(found, dropInFaults(t, deploy, name, u, environment)...)
	}
	return found
}

func oneUnitFaults(t *testing.T, name string, u unit, shared map[string]string) (found faults) {
	for directive, want := range hardening {
		if _, ok := u["Service"][directive]; !ok {
			found.add("%s is not set, want %q", directive, want)
		} else if got := u.one("Service", directive); got != want {
			found.add("%s is %q, want %q", directive, got, want)
		}
	}
	for directive, want := range map[string]string{
		"Type": "exec", "DynamicUser": "yes", "Restart": "on-failure", "KillSignal": "SIGTERM", "UMask": "0077",
	} {
		if got := u.one("Service", directive); got != want {
			found.add("%s is %q, want %q", directive, got, want)
		}
	}
	if u.one("Install", "WantedBy") != "multi-user.target" || u.one("Unit", "Description") == "" {
		found.add("it has no description, or nothing wants it")
	}
	if len(u["Service"]["ExecStart"]) != 1 || !strings.HasPrefix(u.one("Service", "ExecStart"), binaries) {
		found.add("ExecStart is %q, want one program in %s", u["Service"]["ExecStart"], binaries)
		return found
	}
	program, wrong := started(t, u.argv(), u.environment(&found, shared))
	found = append(found, wrong...)
	if stop, err := time.ParseDuration(u.one("Service", "TimeoutStopSec")); err != nil || stop <= program.grace {
		found.add("TimeoutStopSec %v is not above its grace of %s", stop, program.grace)
	}
	if keeps := strings.Contains(
		u.one("Service", "ExecStart"), "${STATE_DIRECTORY}",
	); keeps != (u.one("Service", "StateDirectory") != "") {
		found.add("StateDirectory and what ExecStart does with it do not agree")
	}
	for _, value := range append(u["Service"]["Environment"], u.argv()...) {
		if strings.Contains(value, "%i") && !strings.Contains(name, "@.") {
			found.add("%s: only a template has instances", value)
		}
	}
	return found
}

// argv is the command line. What is in these units needs no quotes.
func (u unit) argv() []string { return strings.Fields(u.one("Service", "ExecStart")) }

// environment is what the program gets: of the unit, and of the file that ingress and drainer share if the unit reads
// it.
func (u unit) environment(found *faults, shared map[string]string) map[string]string {
	all := map[string]string{}
	for _, pair := range u["Service"]["Environment"] {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || strings.ContainsAny(pair, ` "'`) {
			found.add("Environment=%s: want one NAME=VALUE without quotes", pair)
		}
		all[name] = strings.ReplaceAll(value, "%i", "8080")
	}
	for _, file := range u["Service"]["EnvironmentFile"] {
		if path.Dir(strings.TrimPrefix(file, "-")) != "/etc/penstock" {
			found.add("EnvironmentFile=%s is not in /etc/penstock", file)
		}
		if path.Base(file) == "penstock.env" {
			maps.Copy(all, shared)
		}
	}
	return all
}

// dropInFaults looks at what may be laid over a unit: tls.conf over any, the others over those that have the flag.
func dropInFaults(t *testing.T, deploy files, name string, u unit, shared map[string]string) (found faults) {
	for _, file := range deploy.inDir("systemd", ".conf") {
		if strings.Contains(name, "penstock-up") && file != "systemd/tls.conf" {
			continue
		}
		d, err := parseUnit(deploy[file])
		if err != nil {
			found.add("%s: %v", file, err)
			continue
		}
		for _, pair := range d["Service"]["Environment"] {
			_, value, _ := strings.Cut(pair, "=")
			credential, ok := strings.CutPrefix(value, "%d/")
			if ok && !slices.ContainsFunc(d["Service"]["LoadCredential"], func(l string) bool {
				return strings.HasPrefix(l, credential+":/etc/penstock/")
			}) {
				found.add("%s: %s is not loaded", file, pair)
			}
		}
		environment := u.environment(&found, shared)
		maps.Copy(environment, d.environment(&found, nil))
		_, wrong := started(t, u.argv(), environment)
		for _, fault := range wrong {
			found.add("%s with %s: %s", name, file, fault)
		}
	}
	return found
}

// parseEnv reads a file for EnvironmentFile, of lines NAME=VALUE.
func parseEnv(text string) (map[string]string, error) {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || !strings.HasPrefix(name, "PENSTOCK_") || strings.ContainsAny(value, ` "'`) {
			return nil, &refused{line + ": want PENSTOCK_NAME=VALUE without quotes"}
		}
		all[name] = value
	}
	return all, nil
}
