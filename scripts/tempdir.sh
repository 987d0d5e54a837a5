#!/usr/bin/env bash
# Prints a directory for the temporary files of tests: in memory where 4 GiB are free for it, since embedded stores and
# Redis fsync with every step; else where temporary files are anyway. Set TMPDIR to have them elsewhere.
set -euo pipefail
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ] && [ "$(df -Pk /dev/shm | awk 'NR == 2 { print $4 }')" -ge $((4 << 20)) ]; then
	echo /dev/shm
else
	echo "${TMPDIR:-/tmp}"
fi
