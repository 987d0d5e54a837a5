#!/usr/bin/env bash
# Compiles packages like go build, and shows how far it has come: the first compilation takes minutes.
#
#   scripts/compile.sh [flags of go build] packages
set -euo pipefail
go=${GO:-go}
packages=() # of this module; all else are flags and their values
for arg in "$@"; do [[ $arg == ./* ]] && packages+=("$arg"); done
total=$($go list -deps "${packages[@]}" | wc -l)
[ -t 2 ] && line='\r' end='' every=1 || line='' end='\n' every=50
"$go" build -v "$@" 2>&1 | awk -v total="$total" -v line="$line" -v end="$end" -v every="$every" '
	/^[a-z0-9][^ :]*$/ {
		if (++n % every == 0) { printf line "compiled %d of at most %d packages" end, n, total > "/dev/stderr"; open = line }
		next
	}
	{ print (open ? "\n" : "") $0 > "/dev/stderr"; open = "" }
	END { if (open) print "" > "/dev/stderr" }'
