#!/usr/bin/env bash
# Pins the images that deploy/compose.yaml and deploy/Dockerfile name to the digests that their tags have at their
# registries, so that a tag that is moved later changes nothing here.
#
#     scripts/pin.sh           asks the registries, and writes name:tag@sha256:... in place of name:tag
#     scripts/pin.sh --check   fails, and names the images, if any has no digest; it asks nobody
#
# It needs docker with buildx. See what changed before you commit it.
set -euo pipefail
cd "$(dirname "$0")/.."

files=(deploy/compose.yaml deploy/Dockerfile)

# images prints the images that are pulled, a line each.
images() {
	sed -nE 's/^ *image: ([^ $]+)( .*)?$/\1/p; s/^FROM (--platform=[^ ]+ )?([^ ]+:[^ ]+)( .*)?$/\2/p' "${files[@]}" | sort -u
}

if [ "${1:-}" = --check ]; then
	! images | grep -vE '@sha256:[0-9a-f]{64}$' >&2 ||
		{ echo "pin.sh: these images have no digest; make pin asks their registries for it" >&2; exit 1; }
	exit 0
fi

for image in $(images); do
	tag=${image%@*}
	digest=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$tag")
	[[ $digest =~ ^sha256:[0-9a-f]{64}$ ]] || { echo "pin.sh: the digest of $tag is said to be $digest" >&2; exit 1; }
	for file in "${files[@]}"; do
		pinned=$(awk -v old="$image" -v new="$tag@$digest" '
			{ for (i = 1; i <= NF; i++) if ($i == old) { at = index($0, old); $0 = substr($0, 1, at-1) new substr($0, at+length(old)); break }; print }
		' "$file")
		printf '%s\n' "$pinned" >"$file"
	done
	echo "$tag@$digest"
done
