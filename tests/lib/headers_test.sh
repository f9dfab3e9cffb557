#!/bin/sh
# SPDX-License-Identifier: MIT
# Each public header compiles alone, as C11 and as C++17, without a warning; and twice in one file.
cd "$(dirname "$0")/../.." || exit 1
n=0
status=0

check() { # description, command...
	what=$1
	shift
	n=$((n + 1))
	if output=$("$@" 2>&1); then
		echo "ok $n - $what"
	else
		echo "not ok $n - $what"
		echo "$output" | sed 's/^/# /'
		status=1
	fi
}

set -- lib/include/*.h
echo "1..$(($# * 2))"
for header in "$@"; do
	name=$(basename "$header")
	dir=$(mktemp -d) || exit 1
	printf '#include "%s"\n#include "%s"\nint dummy_symbol;\n' "$name" "$name" >"$dir/t.c"
	check "$name compiles alone as C11" \
		"${CC:-cc}" -std=c11 -pedantic -Wall -Wextra -Werror -Ilib/include -fsyntax-only "$dir/t.c"
	check "$name compiles alone as C++17" \
		"${CXX:-c++}" -x c++ -std=c++17 -pedantic -Wall -Wextra -Werror -Ilib/include -fsyntax-only "$dir/t.c"
	rm -rf "$dir"
done
exit $status
