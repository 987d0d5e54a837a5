#!/bin/sh
# Installs what the tests of the release need, where it may: mandoc, rpm and shellcheck.
set -eu

missing=
for tool in mandoc rpm shellcheck; do
	command -v "$tool" >/dev/null || missing="$missing $tool"
done
[ -n "$missing" ] || exit 0

as=
[ "$(id -u)" = 0 ] || as='sudo -n'
if command -v apt-get >/dev/null; then
	export DEBIAN_FRONTEND=noninteractive
	# shellcheck disable=SC2086 # both are lists of words
	$as apt-get update -q >&2 && $as apt-get install -q -y --no-install-recommends $missing >&2 && exit 0
fi
echo "tools.sh: the tests of the release need$missing; install them, for example with apt-get, and try again" >&2
exit 1
