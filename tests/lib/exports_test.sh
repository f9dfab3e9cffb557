#!/bin/sh
# SPDX-License-Identifier: MIT
# Either library shows what its public headers declare, and nothing else that could collide with a name of the application.
cd "$(dirname "$0")/../.." || exit 1
library=${DEFERRED_BUILD:-build}/lib/libdeferred
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

echo 1..3
status=0
# A sanitizer build also shows the version node of the map (type A) and the sanitizer's own names.
nm -D --defined-only "$library.so" | awk '$2 ~ /^[BDRTVW]$/ { sub(/@.*/, "", $3); print $3 }' | grep -v -e '^__' | sort >"$dir/exported"
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
	status=1
fi
nm -g --defined-only "$library.a" | awk '$2 ~ /^[A-Z]$/ { print $3 }' | grep -v -e '^__' | sort >"$dir/global"
if diff "$dir/declared" "$dir/global" >"$dir/diff"; then
	echo "ok 3 - so are the global names of the archive"
else
	echo "not ok 3 - so are the global names of the archive"
	sed 's/^/# /' "$dir/diff" | head -20
	status=1
fi
exit $status
