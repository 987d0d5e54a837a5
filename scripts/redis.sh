#!/usr/bin/env bash
# Finds a redis-server for the tests, and installs one where it may.
#
#     scripts/redis.sh              prints its path on standard output, and everything else on standard error
#     scripts/redis.sh run CMD...   runs CMD with PENSTOCK_REDIS set to the URL of a Redis of its own, on a free port
#                                   of loopback and with an AOF that is synced at every write, which ends with CMD
#
# PENSTOCK_REDIS_SERVER names a redis-server to use in place of the one in PATH. Nothing is installed then.
set -euo pipefail

least=7 # the first major version whose scripts have flags, which ours begin with

script=redis.sh program=redis-server apt_package=redis-server brew_package=redis service=redis-server
needed="is no redis-server of version $least or later"
hint='	The tests run against a real Redis, 7.0 or later. Install it with one of

	    sudo apt-get update && sudo apt-get install -y redis-server     (Debian, Ubuntu)
	    sudo dnf install -y redis                                       (Fedora)
	    brew install redis                                              (macOS)

	or set PENSTOCK_REDIS_SERVER to the path of a redis-server you have, and try again.'
. "$(dirname "$0")/install.sh"

# usable PATH: is this a redis-server, and recent enough?
usable() {
	local major
	major=$("$1" --version 2>/dev/null | sed -nE 's/.* v=([0-9]+)\..*/\1/p') || return 1
	[ -n "$major" ] && [ "$major" -ge "$least" ]
}

find_server() { find_program PENSTOCK_REDIS_SERVER "${PENSTOCK_REDIS_SERVER:-}"; }

# run SERVER CMD...: start SERVER for the time of CMD.
run() {
	local server=$1 dir pid port status=0
	shift
	dir=$(mktemp -d)
	for _ in 1 2 3 4 5; do
		port=$((10000 + RANDOM % 10000)) # below the ports that Linux gives to outgoing connections
		"$server" --port "$port" --bind 127.0.0.1 --dir "$dir" --save '' --appendonly yes --appendfsync always >"$dir/log" 2>&1 &
		pid=$!
		# shellcheck disable=SC2064 # the values of now are wanted
		trap "kill $pid 2>/dev/null; wait $pid 2>/dev/null; rm -rf '$dir'" EXIT
		until grep -q 'Ready to accept connections' "$dir/log"; do
			kill -0 "$pid" 2>/dev/null || continue 2 # the port was taken: another one
			sleep 0.02
		done
		PENSTOCK_REDIS=redis://127.0.0.1:$port "$@" || status=$?
		exit "$status"
	done
	say "redis-server does not start: $(tail -n 5 "$dir/log")"
	exit 1
}

case "${1:-}" in
"") find_server ;;
run)
	shift
	[ $# -gt 0 ] || { say "run what? scripts/redis.sh run CMD..."; exit 2; }
	server=$(find_server)
	run "$server" "$@"
	;;
*)
	say "unknown argument $1; usage: scripts/redis.sh [run CMD...]"
	exit 2
	;;
esac
