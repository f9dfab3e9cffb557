#!/bin/sh
# SPDX-License-Identifier: MIT
# The shared library exports what its public headers declare, and nothing else.
cd "$(dirname "$0")/../.." || exit 1
library=${DEFERRED_BUILD:-build}/lib/libdeferred.so
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

echo 1..2
# A sanitizer build also shows the version node of the map (type A) and the sanitizer's own names.
nm -D --defined-only "$library" | awk '$2 ~ /^[BDRTVW]$/ { sub(/@.*/, "", $3); print $3 }' | grep -v -e '^__' | sort >"$dir/exported"
# A declaration may span lines; a name is what stands before its parenthesis.
cat lib/include/deferred.h lib/include/deferred_coordinator.h | grep -v '^#' | tr '\n' ' ' | sed 's/;/;\n/g' | grep -o 'DEFERRED_API [^()]*(' | sed 's/.*[ *]\([a-z_]*\)($/\1/' | sort >"$dir/declared"
if [ -s "$dir/declared" ]; then
	echo "ok 1 - the headers declare functions"
else
	echo "not ok 1 - the headers declare functions"
fi
if diff "$dir/declared" "$dir/exported" >"$dir/diff"; then
	echo "ok 2 - exported names are those of the headers"
else
	echo "not ok 2 - exported names are those of the headers"
	sed 's/^/# /' "$dir/diff"
	exit 1
fi
