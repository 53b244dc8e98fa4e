#!/bin/sh
# Manual pages: mandoc has nothing to say about any of them, and every page of ours that one refers to exists.
cd "${srcdir:-$(dirname "$0")/../..}" || exit 1
command -v mandoc >/dev/null || { echo "mandoc is not installed"; exit 77; }
bad=0
for page in man/*.[1-8]; do
	# mandoc looks for referred pages in the system's folders only, by an index that may be old; ours are looked for below.
	said=$(mandoc -Tlint "$page" | grep -v -e 'STYLE: referenced manual not found' -e 'outdated mandoc.db')
	[ -z "$said" ] || { echo "$said"; bad=1; }
	sed -n 's/^\.Xr \([^ ]*\) \([0-9]\).*/\1.\2/p' "$page" | sort -u | while read -r ref; do
		[ -f "man/$ref" ] || man -w "${ref##*.}" "${ref%.*}" >/dev/null 2>&1 ||
			{ echo "$page: there is no page $ref"; exit 1; }
	done || bad=1
done
# Each family of endpoints is in rpcd's page: /v1/kv, /v1/operator/raft ...
for family in $(sed -n 's/^.*{ "\(\/v1\/operator\/[a-z]*\).*/\1/p; t; s/^.*{ "\(\/v1\/[a-z]*\).*/\1/p' rpcd/api/*.c | sort -u); do
	grep -q "$family" man/rpcd.8 || { echo "man/rpcd.8: nothing is said of $family"; bad=1; }
done
exit $bad
