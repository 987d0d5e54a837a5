package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// packaged are files that both packages have, with their modes.
var packaged = map[string]string{
	"/usr/bin/penstock":                                  "-rwxr-xr-x",
	"/usr/bin/ingress":                                   "-rwxr-xr-x",
	"/usr/bin/drainer":                                   "-rwxr-xr-x",
	"/usr/lib/systemd/system/penstock-up.service":        "-rw-r--r--",
	"/usr/lib/systemd/system/penstock-ingress@.service":  "-rw-r--r--",
	"/usr/lib/systemd/system/penstock-drainer@.service":  "-rw-r--r--",
	"/usr/lib/sysusers.d/penstock.conf":                  "-rw-r--r--",
	"/etc/penstock/penstock.env":                         "-rw-------",
	"/usr/share/man/man1/penstock.1.gz":                  "-rw-r--r--",
	"/usr/share/man/man1/penstock-queue.1.gz":            "-rw-r--r--",
	"/usr/share/bash-completion/completions/penstock":    "-rw-r--r--",
	"/usr/share/fish/vendor_completions.d/penstock.fish": "-rw-r--r--",
	"/usr/share/doc/penstock/examples/tls.conf":          "-rw-r--r--",
	"/usr/share/doc/penstock/examples/nats-creds.conf":   "-rw-r--r--",
}

// holds checks a long listing of a package: files, modes, owners.
func holds(t *testing.T, listing string, files map[string]string, owner string) {
	t.Helper()
	modes := map[string]string{}
	for line := range strings.Lines(listing) {
		fields := strings.Fields(line)
		if !strings.Contains(line, owner) {
			t.Errorf("owner is not %s: %s", owner, line)
		}
		modes["/"+strings.TrimPrefix(strings.TrimPrefix(fields[len(fields)-1], "."), "/")] = fields[0]
	}
	for name, mode := range files {
		if modes[name] != mode {
			t.Errorf("%s has the mode %q, want %q", name, modes[name], mode)
		}
	}
	for name := range modes {
		if strings.Contains(name, "probe") || strings.HasPrefix(name, "/opt") || strings.HasPrefix(name, "/var") {
			t.Errorf("the package has %s", name)
		}
	}
}

func TestDeb(t *testing.T) {
	f := release(t)
	deb := f.file(t, "penstock_9.8.7_"+runtime.GOARCH+".deb")
	listing := tool(t, "dpkg-deb", "--contents", deb)
	holds(t, listing, packaged, "root/root")
	holds(t, listing, map[string]string{
		"/usr/share/doc/penstock/copyright": "-rw-r--r--", "/usr/share/zsh/vendor-completions/_penstock": "-rw-r--r--",
	}, "root/root")
	mustContain(t, "control", tool(t, "dpkg-deb", "--field", deb), "Package: penstock\n", "Version: 9.8.7\n",
		"Architecture: "+runtime.GOARCH+"\n", "Depends: passwd\n", "Recommends: ca-certificates, tzdata\n", "Section: net\n",
		"Description: Job queue with an exact rate\n")

	dir := t.TempDir()
	tool(t, "dpkg-deb", "--raw-extract", deb, dir)
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	for control, script := range map[string]string{
		"preinst": "preinstall.sh", "postinst": "postinstall.sh", "prerm": "preremove.sh", "postrm": "postremove.sh",
	} {
		want, err := scripts.ReadFile("linux/" + script)
		if err != nil || read("DEBIAN/"+control) != string(want) {
			t.Errorf("%s is not %s (%v):\n%s", control, script, err, read("DEBIAN/"+control))
		}
	}
	if got := read("DEBIAN/conffiles"); got != "/etc/penstock/penstock.env\n" {
		t.Errorf("conffiles: %q", got)
	}
	for unit, program := range map[string]string{
		"penstock-up": "penstock up --data=${STATE_DIRECTORY}", "penstock-ingress@": "ingress",
		"penstock-drainer@": "drainer",
	} {
		text := read("usr/lib/systemd/system/" + unit + ".service")
		mustContain(t, unit, text, "\nExecStart=/usr/bin/"+program+"\n", "\nUser=penstock\nGroup=penstock\n",
			"\nProtectSystem=strict\n")
		if strings.Contains(text, "/opt/") || strings.Contains(text, "DynamicUser") {
			t.Errorf("%s is for another installation:\n%s", unit, text)
		}
	}
	tool(t, "sh", "-c", `cd "$1" && md5sum --quiet -c DEBIAN/md5sums`, "sh", dir)
}

func TestRPM(t *testing.T) {
	f := release(t)
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	rpm := f.file(t, "penstock-9.8.7-1."+arch+".rpm")
	query := func(args ...string) string {
		return tool(t, "rpm", append([]string{"--dbpath", t.TempDir(), "-qp"}, append(args, rpm)...)...)
	}
	listing := query("--queryformat", `[%{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILENAMES}\n]`)
	holds(t, listing, packaged, "root/root")
	holds(t, listing, map[string]string{
		"/usr/share/licenses/penstock/LICENSE": "-rw-r--r--", "/usr/share/zsh/site-functions/_penstock": "-rw-r--r--",
	}, "root/root")
	for format, want := range map[string]string{
		"%{NAME} %{VERSION} %{RELEASE} %{ARCH} %{OS}": "penstock 9.8.7 1 " + arch + " linux",
		"%{LICENSE}": "Apache-2.0", "%{BUILDHOST}": "localhost", "%{BUILDTIME}": "1700000000",
		"%{SUMMARY}": "Job queue with an exact rate", "%{URL}": "https://github.com/penstock/penstock",
	} {
		if got := query("--queryformat", format); got != want {
			t.Errorf("%s is %q, want %q", format, got, want)
		}
	}
	mustContain(t, "scripts", query("--scripts"), "preinstall scriptlet", "useradd --system", "postinstall scriptlet",
		"systemctl daemon-reload", "preuninstall scriptlet", "postuninstall scriptlet")
	mustContain(t, "requires", query("--requires"), "/usr/sbin/useradd")
	mustContain(t, "configuration files", query("--configfiles"), "/etc/penstock/penstock.env")
	mustContain(t, "digests", tool(t, "rpm", "--dbpath", t.TempDir(), "-K", "--nosignature", rpm), "digests OK")
}

func TestUnitsThatCannotBePackaged(t *testing.T) {
	for _, unit := range []string{
		"[Service]\nDynamicUser=yes\n", "[Service]\nExecStart=/opt/penstock/bin/drainer\n",
		"[Service]\nExecStart=/opt/penstock/bin/a\nExecStart=/opt/penstock/bin/b\nDynamicUser=yes\n",
	} {
		if got, err := packagedUnit("x.service", []byte(unit)); err == nil || !strings.Contains(err.Error(), "x.service") {
			t.Errorf("%q: %q, %v", unit, got, err)
		}
	}
}

// The scripts of both packages and the installers are portable shell.
func TestShellcheck(t *testing.T) {
	found, err := filepath.Glob("linux/*.sh")
	if err != nil || len(found) != 4 {
		t.Fatal(found, err)
	}
	tool(t, "shellcheck", append(found, "install.sh", "tools.sh", "testdata/install_deb.sh")...)
}

var versionLine = regexp.MustCompile(`^penstock v9\.8\.7 \(go[0-9.]+, linux/[a-z0-9]+\)\n`)
