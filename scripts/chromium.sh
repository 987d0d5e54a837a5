#!/usr/bin/env bash
# Finds Chromium for the tests of the web console, and installs one where it may. Prints its path on standard output,
# and everything else on standard error.
#
# Where there is a headless shell of Chromium, that is taken: it draws no windows, and takes half the time.
#
# PENSTOCK_CHROMIUM names a Chromium or Chrome to use in place of the one in PATH. Nothing is installed then.
set -euo pipefail

script=chromium.sh program=chromium apt_package=chromium-headless-shell brew_package=chromium
needed='does not say which version it is'
hint='	The console is tested in a real browser. Install it with one of

	    sudo apt-get update && sudo apt-get install -y --no-install-recommends chromium-headless-shell     (Debian)
	    sudo dnf install -y chromium                                                       (Fedora)
	    brew install --cask chromium                                                       (macOS)

	or set PENSTOCK_CHROMIUM to the path of a Chromium or Chrome you have, and try again.'
. "$(dirname "$0")/install.sh"

if command -v chromium-headless-shell >/dev/null || { ! command -v chromium && command -v apt-get; } >/dev/null; then
	program=chromium-headless-shell
fi

# usable PATH: is this a browser that starts?
usable() { "$1" --version >/dev/null 2>&1; }

[ $# = 0 ] || { say "unknown argument $1; usage: scripts/chromium.sh"; exit 2; }
find_program PENSTOCK_CHROMIUM "${PENSTOCK_CHROMIUM:-}"
