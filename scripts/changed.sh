#!/usr/bin/env bash
# Prints the packages that a change touches, one per line: those with a file that differs from the last commit, and
# those whose own code imports one of them directly. Without a difference, the last commit is the change.
set -euo pipefail
cd "$(dirname "$0")/.."

files() {
	git diff --name-only HEAD
	git ls-files --others --exclude-standard
}

changed=$(files)
[ -n "$changed" ] || changed=$(git diff --name-only HEAD~1 HEAD)

# A file that is not Go belongs to the package above it, which may embed it.
dirs=$(while read -r file; do
	dir=$(dirname "$file")
	while [ "$dir" != . ] && ! compgen -G "$dir/*.go" >/dev/null; do dir=$(dirname "$dir"); done
	echo "$dir"
done <<<"$changed" | sort -u)

${GO:-go} list -f '{{.ImportPath}} {{.Dir}} {{join .Imports " "}}' ./... |
	awk -v root="$PWD/" -v dirs="$dirs" '
		BEGIN { n = split(dirs, list, "\n"); for (i = 1; i <= n; i++) touched[root list[i]] }
		{ line[NR] = $0; if ($2 in touched) changed[$1] }
		END {
			for (i = 1; i <= NR; i++) {
				n = split(line[i], field, " ")
				found = field[1] in changed
				for (k = 3; k <= n && !found; k++) found = field[k] in changed
				if (found) print field[1]
			}
		}'
