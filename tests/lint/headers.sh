#!/bin/sh
# Every header of ours compiles alone and twice.
src=${srcdir:-$(dirname "$0")/../..}
bad=0
for h in "$src"/common/*.h "$src"/gossipd/*.h "$src"/gossipd/core/*.h "$src"/raftd/*.h "$src"/raftd/core/*.h \
    "$src"/raftd/fsm/*.h "$src"/rpcd/*.h "$src"/rpcd/*/*.h "$src"/ctl/*.h; do
	[ -f "$h" ] || continue
	rel=${h#"$src"/}
	printf '#include "%s"\n#include "%s"\nint unused;\n' "$rel" "$rel" |
		${CC:-cc} -std=gnu17 -D_GNU_SOURCE -I"$src" -I. -Wall -Werror -Wno-unused -fsyntax-only -x c - ||
		{ echo "$rel: does not stand alone"; bad=1; }
done
exit $bad
