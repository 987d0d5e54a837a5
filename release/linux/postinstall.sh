#!/bin/sh
# Makes the new units known. It starts and restarts nothing, because the order of an upgrade matters: drainers first.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
