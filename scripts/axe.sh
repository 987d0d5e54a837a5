#!/usr/bin/env bash
# Fetches axe-core, which checks the pages of the web console for accessibility, from the npm registry into bin/tools,
# unless it is there. Prints the path of its script on standard output, and everything else on standard error.
#
# PENSTOCK_AXE names a copy of axe.min.js to use instead. Nothing is fetched then.
set -euo pipefail

version=4.10.3
digest=5e6edba515e70d25f6604d9815f064d859c5d1ea7ab661bbc4f87c88779ef0c21cae0abbeb636471ef39e9d62d2582e4b88a1866f19f4ecfcf6d986275e4dc12

script=axe.sh program=npm apt_package=npm brew_package=node
needed='does not say which version it is'
hint='	The pages of the console are checked with axe-core. Install npm with one of

	    sudo apt-get update && sudo apt-get install -y --no-install-recommends npm                 (Debian)
	    sudo dnf install -y npm                                                                    (Fedora)
	    brew install node                                                                          (macOS)

	or set PENSTOCK_AXE to the path of a copy of axe.min.js, and try again.'
. "$(dirname "$0")/install.sh"

# usable PATH: is this an npm that starts?
usable() { "$1" --version >/dev/null 2>&1; }

[ $# = 0 ] || { say "unknown argument $1; usage: scripts/axe.sh"; exit 2; }
if [ -n "${PENSTOCK_AXE:-}" ]; then
	[ -f "$PENSTOCK_AXE" ] || give_up "PENSTOCK_AXE=$PENSTOCK_AXE is not a file"
	echo "$PENSTOCK_AXE"
	exit
fi

tools=$(cd "$(dirname "$0")/.." && pwd)/bin/tools
target=$tools/axe-core-$version.js
if [ ! -f "$target" ]; then
	npm=$(find_program PENSTOCK_NPM "${PENSTOCK_NPM:-}")
	mkdir -p "$tools"
	work=$(mktemp -d "$tools/axe.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	say "fetching axe-core $version"
	(cd "$work" && "$npm" pack --silent "axe-core@$version" >&2) || give_up "npm could not fetch axe-core $version"
	sum=$({ command -v sha512sum >/dev/null && sha512sum "$work"/*.tgz || shasum -a 512 "$work"/*.tgz; } | cut -d' ' -f1)
	[ "$sum" = "$digest" ] || give_up "axe-core $version has the digest $sum, want $digest"
	tar -xzf "$work"/*.tgz -C "$work" package/axe.min.js
	mv "$work/package/axe.min.js" "$target"
fi
echo "$target"
