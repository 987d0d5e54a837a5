#!/bin/sh
# Installs, upgrades, removes and purges a deb on a copy of this machine's files. The copy is a layer over them in a mount
# namespace of its own; the machine does not change. Arguments: an empty folder, the deb.
set -eu

mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cp "$2" "$1/root/penstock.deb"
# shellcheck disable=SC2016 # the inner shell expands them
exec chroot "$1/root" sh -euc '
	dpkg -i /penstock.deb
	getent passwd penstock
	penstock version
	echo PENSTOCK_REDIS=changed >/etc/penstock/penstock.env
	dpkg -i /penstock.deb
	echo "after an upgrade: $(cat /etc/penstock/penstock.env)"
	dpkg -r penstock
	[ ! -e /usr/bin/penstock ] && [ ! -e /usr/lib/systemd/system/penstock-up.service ] && echo removed
	dpkg -P penstock
	[ ! -e /etc/penstock ] && getent passwd penstock >/dev/null && echo purged
'
