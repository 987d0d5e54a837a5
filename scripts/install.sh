# What redis.sh, promtool.sh and chromium.sh share, for bash to source: to install the package of a program where that may be done.
#
# Whoever sources it has set: script, the name to speak under; program, which is looked for; apt_package and
# brew_package, which bring it; service, which apt's package starts, if it does; and hint, what to do by hand.

say() { echo "$script: $*" >&2; }

give_up() {
	say "$1"
	printf '\n%s\n' "$hint" >&2
	exit 1
}

apt() {
	local as=("$@") started_before=no
	say "installing $apt_package with apt-get"
	if [ -n "${service:-}" ] && pidof "$service" >/dev/null 2>&1; then started_before=yes; fi
	export DEBIAN_FRONTEND=noninteractive
	"${as[@]}" apt-get update -q </dev/null >&2 || return 1
	"${as[@]}" apt-get install -q -y --no-install-recommends "$apt_package" </dev/null >&2 || return 1
	# The package starts a service and has it start at boot. We want the program only: each test runs its own.
	if [ "$started_before" = yes ] || [ -z "${service:-}" ]; then return 0; fi
	if [ -d /run/systemd/system ]; then
		"${as[@]}" systemctl disable --now "$service" >&2 || true
	else
		"${as[@]}" service "$service" stop >&2 || true
		"${as[@]}" update-rc.d "$service" disable >&2 || true
	fi
}

install() {
	if command -v apt-get >/dev/null; then
		local as=(sudo -n) # -n: fail where it would ask for a password
		if [ "$(id -u)" = 0 ]; then as=(); fi
		apt "${as[@]}" && return
		give_up "apt-get could not install $apt_package; what it, or sudo, said is above"
	fi
	if command -v brew >/dev/null; then
		say "installing $brew_package with brew"
		brew install "$brew_package" >&2 && return
		give_up "brew could not install $brew_package; what it said is above"
	fi
	give_up "there is no $program, and neither apt-get nor brew to install it with"
}

# find_program NAME VALUE: the path of the program that VALUE, of the variable NAME, names, or else of the one in PATH,
# which is installed if there is none.
find_program() {
	local found
	if [ -n "$2" ]; then
		found=$(command -v "$2") || give_up "$1=$2 is not a program"
	else
		command -v "$program" >/dev/null || install
		found=$(command -v "$program") || give_up "it was installed, and yet there is no $program in PATH ($PATH)"
	fi
	usable "$found" || give_up "$found $needed"
	echo "$found"
}
