#!/bin/sh
# Creates the system user of the units, unless it exists.
set -e

if ! getent group penstock >/dev/null; then
	groupadd --system penstock
fi
if ! getent passwd penstock >/dev/null; then
	useradd --system --gid penstock --home-dir /var/lib/penstock --no-create-home \
		--shell /usr/sbin/nologin --comment Penstock penstock
fi
