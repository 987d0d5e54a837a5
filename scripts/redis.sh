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

say() { echo "redis.sh: $*" >&2; }

give_up() {
	say "$1"
	cat >&2 <<-'END'

		The tests run against a real Redis, 7.0 or later. Install it with one of

		    sudo apt-get update && sudo apt-get install -y redis-server     (Debian, Ubuntu)
		    sudo dnf install -y redis                                       (Fedora)
		    brew install redis                                              (macOS)

		or set PENSTOCK_REDIS_SERVER to the path of a redis-server you have, and try again.
	END
	exit 1
}

# usable PATH: is this a redis-server, and recent enough?
usable() {
	local major
	major=$("$1" --version 2>/dev/null | sed -nE 's/.* v=([0-9]+)\..*/\1/p') || return 1
	[ -n "$major" ] && [ "$major" -ge "$least" ]
}

apt() {
	local as=("$@") started_before=no
	say "installing redis-server with apt-get"
	if pidof redis-server >/dev/null 2>&1; then started_before=yes; fi
	export DEBIAN_FRONTEND=noninteractive
	"${as[@]}" apt-get update -q </dev/null >&2 || return 1
	"${as[@]}" apt-get install -q -y redis-server </dev/null >&2 || return 1
	# The package starts a service and has it start at boot. We want the program only: each test runs its own.
	[ "$started_before" = yes ] && return 0
	if [ -d /run/systemd/system ]; then
		"${as[@]}" systemctl disable --now redis-server >&2 || true
	else
		"${as[@]}" service redis-server stop >&2 || true
		"${as[@]}" update-rc.d redis-server disable >&2 || true
	fi
}

install() {
	if command -v apt-get >/dev/null; then
		local as=(sudo -n) # -n: fail where it would ask for a password
		if [ "$(id -u)" = 0 ]; then as=(); fi
		apt "${as[@]}" && return
		give_up "apt-get could not install redis-server; what it, or sudo, said is above"
	fi
	if command -v brew >/dev/null; then
		say "installing redis with brew"
		brew install redis >&2 && return
		give_up "brew could not install redis; what it said is above"
	fi
	give_up "there is no redis-server, and neither apt-get nor brew to install it with"
}

find_server() {
	if [ -n "${PENSTOCK_REDIS_SERVER:-}" ]; then
		local given
		given=$(command -v "$PENSTOCK_REDIS_SERVER") || give_up "PENSTOCK_REDIS_SERVER=$PENSTOCK_REDIS_SERVER is not a program"
		usable "$given" || give_up "PENSTOCK_REDIS_SERVER=$PENSTOCK_REDIS_SERVER is not a redis-server of version $least or later"
		echo "$given"
		return
	fi
	command -v redis-server >/dev/null || install >&2
	local found
	found=$(command -v redis-server) || give_up "it was installed, and yet there is no redis-server in PATH ($PATH)"
	usable "$found" || give_up "$found is older than $least.0: $("$found" --version)"
	echo "$found"
}

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
