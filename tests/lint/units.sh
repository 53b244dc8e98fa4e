#!/bin/sh
# systemd units: nothing to complain about, and an exposure of at most 2.0 each.
command -v systemd-analyze >/dev/null || { echo "systemd-analyze is not installed"; exit 77; }
src=${srcdir:-$(dirname "$0")/../..}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
for unit in gossipd raftd rpcd; do
	# The programs need not be installed to check the units.
	sed -e 's,@sbindir@/[a-z]*,/bin/true,' -e 's,@statedir@,/var/lib/triumvir,g' -e 's,@rundir@,/run/triumvir,g' -e '/^Documentation=/d' \
		"$src/etc/systemd/$unit.service.in" > "$dir/$unit.service"
done
sed '/^Documentation=/d' "$src/etc/systemd/triumvir.target" > "$dir/triumvir.target"
said=$(SYSTEMD_UNIT_PATH="$dir:" systemd-analyze verify "$dir"/*.service "$dir/triumvir.target" 2>&1 | grep -E 'gossipd|raftd|rpcd|triumvir')
[ -z "$said" ] || { echo "$said"; bad=1; }
# The units as built name real paths.
for unit in etc/systemd/*.service; do
	[ -f "$unit" ] || continue
	! grep -n '@[a-z]*@' "$unit" || { echo "$unit: a path was not filled in"; bad=1; }
done
for unit in gossipd raftd rpcd; do
	level=$(systemd-analyze security --offline=true "$dir/$unit.service" | sed -n 's/.*Overall exposure level.*: \([0-9.]*\) .*/\1/p')
	echo "$unit.service: exposure $level"
	awk -v l="$level" 'BEGIN { exit !(l != "" && l <= 2.0) }' || { echo "$unit.service: more than 2.0"; bad=1; }
done
exit $bad
