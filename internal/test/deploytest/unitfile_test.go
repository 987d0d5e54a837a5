package deploytest

import (
	"fmt"
	"strings"
)

// unit is a file of systemd: what each directive of each section was set to, in order.
type unit map[string]map[string][]string

// one is the last value of a directive, which is the one that counts where there can be only one.
func (u unit) one(section, name string) string {
	values := u[section][name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// directives are those that are used here, by section. systemd ignores what it does not know, so a slip of the
// pen would go unnoticed.
var directives = map[string]string{
	"Unit": "Description Documentation After Wants StartLimitIntervalSec",
	"Service": "Type Environment EnvironmentFile ExecStart Restart RestartSec KillSignal TimeoutStopSec LimitNOFILE " +
		"LoadCredential " +
		"DynamicUser StateDirectory StateDirectoryMode UMask " + hardeningNames(),
	"Install": "WantedBy",
}

// parseUnit reads a unit strictly: no continued lines, nothing outside a section, no directive that is not known.
func parseUnit(text string) (unit, error) {
	u, section := unit{}, ""
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		name, value, set := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[' && line[len(line)-1] == ']':
			section = line[1 : len(line)-1]
			if directives[section] == "" || u[section] != nil {
				return nil, fmt.Errorf("line %d: section %s is unknown, or there twice", i+1, line)
			}
			u[section] = map[string][]string{}
		case !set || section == "":
			return nil, fmt.Errorf("line %d: %q is no directive in a section", i+1, line)
		case !strings.Contains(" "+directives[section]+" ", " "+name+" "):
			return nil, fmt.Errorf("line %d: %s is no directive of [%s] that is known here", i+1, name, section)
		case strings.HasSuffix(value, `\`) || value != strings.TrimSpace(value):
			return nil, fmt.Errorf("line %d: %q goes on, or has spaces around it", i+1, line)
		default:
			u[section][name] = append(u[section][name], value)
		}
	}
	return u, nil
}
