#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the C file with the version that programs print: bin/version.sh VERSION
#
# A development build adds the commit. A release has no commit in its version: its commit has the tag vVERSION, or a
# later commit of some branch lists it in RELEASES. Without git, as in the tarball, nothing is added.
version=$1
if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ]; then
	commit=$(git --no-optional-locks describe --always --dirty --exclude='*')
	case $commit in
	*-dirty) ;;
	*)
		tagged=$(git tag --points-at HEAD | grep -xF "v$version")
		listed=$(git log -1 --format=%h --all --not HEAD -S"$commit" -- RELEASES)
		[ -z "$tagged$listed" ] || commit=
		;;
	esac
fi
printf '#include "program/program.h"\n\nconst char program_version[] = "%s";\n' "$version${commit:+ (commit $commit)}"
