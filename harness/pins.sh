#!/bin/bash
# Write requirements.txt anew: what requirements.in needs, and the wheels that pip takes on
# Debian 12 and 13, by their hashes. For the person who changes a version.
set -euo pipefail

cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT

# fetch <version of Python> <minor version of glibc 2> <argument...>: the wheels of one release
fetch()
{
	local options=(--only-binary :all: --implementation cp --python-version "$1"
		--abi "cp${1/./}" --abi abi3 --abi none)
	local platform

	for platform in $(seq -f manylinux_2_%g "$2" -1 5) manylinux2014 manylinux2010 manylinux1; do
		options+=(--platform "${platform}_x86_64")
	done
	python3 -m pip download -q --disable-pip-version-check "${options[@]}" \
		-d "$scratch" "${@:3}"
}

fetch 3.11 36 -r requirements.in
find "$scratch" -name '*.whl' -printf '%f\n' | sed 's/-\([^-]*\)-.*/==\1/' >"$scratch/pins"
fetch 3.13 41 --no-deps -r "$scratch/pins"
(cd "$scratch" && sha256sum ./*.whl) | sort -k 2 | awk '{
	split($2, part, "-")
	name = tolower(substr(part[1], 3))
	gsub(/[_.]/, "-", name)
	if (last != name "==" part[2]) {
		if (last != "") print ""
		printf "%s", last = name "==" part[2]
	}
	printf " \\\n    --hash=sha256:%s", $1
} END { print "" }' >requirements.txt
