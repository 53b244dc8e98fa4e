#!/bin/sh
# Every header of ours compiles alone and twice.
src=${srcdir:-$(dirname "$0")/../..}
bad=0
for h in $(find "$src/common" "$src/gossipd" "$src/raftd" "$src/rpcd" "$src/ctl" -name "*.h" | sort); do
	[ -f "$h" ] || continue
	rel=${h#"$src"/}
	printf '#include "%s"\n#include "%s"\nint unused;\n' "$rel" "$rel" |
		${CC:-cc} -std=gnu17 -D_GNU_SOURCE -I"$src" -I. -Wall -Werror -Wno-unused -fsyntax-only -x c - ||
		{ echo "$rel: does not stand alone"; bad=1; }
done
exit $bad
