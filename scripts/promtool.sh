#!/usr/bin/env bash
# Finds promtool, and the Prometheus beside it, for the tests of the alerts and dashboards, and installs both where it
# may. Prints promtool's path on standard output, and everything else on standard error.
#
# PENSTOCK_PROMTOOL names a promtool to use in place of the one in PATH. Nothing is installed then.
set -euo pipefail

script=promtool.sh program=promtool apt_package=prometheus brew_package=prometheus service=prometheus
needed='does not know test rules, or has no prometheus beside it'
hint='	The alerts are tested by promtool and the dashboards by the Prometheus that it comes with. Install it with one of

	    sudo apt-get update && sudo apt-get install -y --no-install-recommends prometheus     (Debian, Ubuntu)
	    sudo dnf install -y golang-github-prometheus                                          (Fedora)
	    brew install prometheus                                                               (macOS)

	or set PENSTOCK_PROMTOOL to the path of a promtool you have, and try again.'
. "$(dirname "$0")/install.sh"

# usable PATH: does this test rules, and did a Prometheus come with it?
usable() { "$1" test rules --help >/dev/null 2>&1 && [ -x "$(dirname "$1")/prometheus" ]; }

[ $# = 0 ] || { say "unknown argument $1; usage: scripts/promtool.sh"; exit 2; }
find_program PENSTOCK_PROMTOOL "${PENSTOCK_PROMTOOL:-}"
