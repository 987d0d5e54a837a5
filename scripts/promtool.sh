#!/usr/bin/env bash
# Finds promtool for the tests of the alerts, and installs it where it may. Prints its path on standard output, and
# everything else on standard error.
#
# PENSTOCK_PROMTOOL names a promtool to use in place of the one in PATH. Nothing is installed then.
set -euo pipefail

script=promtool.sh program=promtool apt_package=prometheus brew_package=prometheus service=prometheus
needed='does not know test rules'
hint='	The alerts are tested by promtool, which comes with Prometheus. Install it with one of

	    sudo apt-get update && sudo apt-get install -y --no-install-recommends prometheus     (Debian, Ubuntu)
	    sudo dnf install -y golang-github-prometheus                                          (Fedora)
	    brew install prometheus                                                               (macOS)

	or set PENSTOCK_PROMTOOL to the path of a promtool you have, and try again.'
. "$(dirname "$0")/install.sh"

# usable PATH: does this test rules?
usable() { "$1" test rules --help >/dev/null 2>&1; }

[ $# = 0 ] || { say "unknown argument $1; usage: scripts/promtool.sh"; exit 2; }
find_program PENSTOCK_PROMTOOL "${PENSTOCK_PROMTOOL:-}"
