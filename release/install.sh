#!/bin/sh
# Installs penstock, ingress and drainer from a release of Penstock:
#
#     curl -fsSL https://github.com/penstock/penstock/releases/latest/download/install.sh | sh
#
# It verifies the SHA-256 of the archive before it unpacks it, and changes nothing if that fails. Settings:
#
#     PENSTOCK_VERSION       version to install; default: the release that this script comes from
#     PENSTOCK_PREFIX        where to install; default: /usr/local for root, otherwise ~/.local
#     PENSTOCK_RELEASE_URL   folder with the files of the release; default: the release page of the version
set -eu

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

# fetch URL FILE
fetch() {
	if command -v curl >/dev/null; then
		curl -fsSL --retry 2 -o "$2" "$1" || fail "cannot download $1"
	elif command -v wget >/dev/null; then
		wget -q -O "$2" "$1" || fail "cannot download $1"
	else
		fail "needs curl or wget; install one of them"
	fi
}

# sha256 FILE: prints its SHA-256.
sha256() {
	if command -v sha256sum >/dev/null; then
		sha256sum "$1"
	elif command -v shasum >/dev/null; then
		shasum -a 256 "$1"
	else
		fail "needs sha256sum or shasum to verify the download; install one of them"
	fi | cut -d ' ' -f 1
}

# platform: prints OS_ARCH of this machine.
platform() {
	case $(uname -s) in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	*) fail "there is no archive for $(uname -s); download one for Windows, or build from source" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "there is no archive for the processor $(uname -m); build from source" ;;
	esac
	echo "${os}_$arch"
}

# put FILE TARGET MODE: installs a file, also over a program that runs.
put() {
	mkdir -p "$(dirname "$2")"
	cp "$1" "$2.new"
	chmod "$3" "$2.new"
	mv "$2.new" "$2"
}

main() {
	version=${PENSTOCK_VERSION:-@VERSION@}
	case $version in
	v[0-9]*.[0-9]*.[0-9]*) ;;
	*) fail "PENSTOCK_VERSION=$version: must have the form vX.Y.Z, for example v0.1.0" ;;
	esac
	prefix=${PENSTOCK_PREFIX:-}
	if [ -z "$prefix" ]; then
		if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=$HOME/.local; fi
	fi
	url=${PENSTOCK_RELEASE_URL:-https://github.com/penstock/penstock/releases/download/$version}
	archive=penstock_${version#v}_$(platform).tar.gz

	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' INT TERM
	fetch "$url/SHA256SUMS" "$work/SHA256SUMS"
	want=$(awk -v name="$archive" '$2 == name { print $1 }' "$work/SHA256SUMS")
	case $want in
	'') fail "$url/SHA256SUMS does not name $archive" ;;
	*[!0-9a-f]*) fail "$url/SHA256SUMS has no single checksum of $archive" ;;
	esac
	fetch "$url/$archive" "$work/$archive"
	got=$(sha256 "$work/$archive")
	[ "$got" = "$want" ] ||
		fail "$archive has the SHA-256 $got, but SHA256SUMS says $want; nothing was installed. Try again"

	tar -xzf "$work/$archive" -C "$work"
	from=$work/penstock-${version#v}
	for program in penstock ingress drainer; do
		put "$from/$program" "$prefix/bin/$program" 755
	done
	for page in "$from"/man/*; do
		put "$page" "$prefix/share/man/man1/${page##*/}" 644
	done
	put "$from/completions/penstock.bash" "$prefix/share/bash-completion/completions/penstock" 644
	put "$from/completions/_penstock" "$prefix/share/zsh/site-functions/_penstock" 644
	put "$from/completions/penstock.fish" "$prefix/share/fish/vendor_completions.d/penstock.fish" 644
	echo "installed Penstock $version in $prefix/bin"
	case :$PATH: in *":$prefix/bin:"*) ;; *) echo "add $prefix/bin to your PATH" ;; esac
}

# Called last, so that a download of this script that breaks off runs nothing.
main
