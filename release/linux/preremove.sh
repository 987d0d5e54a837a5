#!/bin/sh
# Stops the units when the package is removed, but not when it is upgraded. The argument is "remove" for dpkg and 0 for
# rpm.
set -e

if { [ "$1" = remove ] || [ "$1" = 0 ]; } && [ -d /run/systemd/system ]; then
	systemctl disable --now penstock-up.service || true
	systemctl stop 'penstock-ingress@*.service' 'penstock-drainer@*.service' || true
fi
