#!/usr/bin/env bash
# Finds promtool for the tests of the alerts, and installs it where it may. Prints its path on standard output, and
# everything else on standard error.
#
# PENSTOCK_PROMTOOL names a promtool to use in place of the one in PATH. Nothing is installed then.
set -euo pipefail

say() { echo "promtool.sh: $*" >&2; }

give_up() {
	say "$1"
	cat >&2 <<-'END'

		The alerts are tested by promtool, which comes with Prometheus. Install it with one of

		    sudo apt-get update && sudo apt-get install -y --no-install-recommends prometheus     (Debian, Ubuntu)
		    sudo dnf install -y golang-github-prometheus                                          (Fedora)
		    brew install prometheus                                                               (macOS)

		or set PENSTOCK_PROMTOOL to the path of a promtool you have, and try again.
	END
	exit 1
}

# usable PATH: does this test rules?
usable() { "$1" test rules --help >/dev/null 2>&1; }

apt() {
	local as=("$@") started_before=no
	say "installing prometheus, which brings promtool, with apt-get"
	if pidof prometheus >/dev/null 2>&1; then started_before=yes; fi
	export DEBIAN_FRONTEND=noninteractive
	"${as[@]}" apt-get update -q </dev/null >&2 || return 1
	"${as[@]}" apt-get install -q -y --no-install-recommends prometheus </dev/null >&2 || return 1
	# The package starts a service and has it start at boot. We want the program only.
	[ "$started_before" = yes ] && return 0
	if [ -d /run/systemd/system ]; then
		"${as[@]}" systemctl disable --now prometheus >&2 || true
	else
		"${as[@]}" service prometheus stop >&2 || true
		"${as[@]}" update-rc.d prometheus disable >&2 || true
	fi
}

install() {
	if command -v apt-get >/dev/null; then
		local as=(sudo -n) # -n: fail where it would ask for a password
		if [ "$(id -u)" = 0 ]; then as=(); fi
		apt "${as[@]}" && return
		give_up "apt-get could not install prometheus; what it, or sudo, said is above"
	fi
	if command -v brew >/dev/null; then
		say "installing prometheus with brew"
		brew install prometheus >&2 && return
		give_up "brew could not install prometheus; what it said is above"
	fi
	give_up "there is no promtool, and neither apt-get nor brew to install it with"
}

[ $# = 0 ] || { say "unknown argument $1; usage: scripts/promtool.sh"; exit 2; }
if [ -n "${PENSTOCK_PROMTOOL:-}" ]; then
	found=$(command -v "$PENSTOCK_PROMTOOL") || give_up "PENSTOCK_PROMTOOL=$PENSTOCK_PROMTOOL is not a program"
else
	command -v promtool >/dev/null || install
	found=$(command -v promtool) || give_up "it was installed, and yet there is no promtool in PATH ($PATH)"
fi
usable "$found" || give_up "$found does not know test rules"
echo "$found"
