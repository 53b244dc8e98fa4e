# Lints: manual pages, units, headers, the width of lines.
LINTS = tests/lint/man.sh tests/lint/units.sh tests/lint/headers.sh tests/lint/keys.py tests/lint/verbs.py tests/lint/scenarios.py tests/lint/nets.py \
    tests/lint/lines.py tests/lint/words.py tests/lint/readmes.py tests/lint/msgs.py tests/lint/rooms.py tests/lint/once.py tests/lint/mutants.sh tests/lint/places.py tests/lint/expected.py tests/lint/price.py
TESTS += $(LINTS)
EXTRA_DIST += $(LINTS) tests/sim/mutants.py tests/run-all tests/lanes.py tests/peers tests/valgrind.supp tests/tsan.supp .ci/run
EXTRA_DIST += tests/system tests/conformance tests/data/systemd tests/expected.txt tests/skips.txt
# Whether configure found Check, and what make check runs: for tests/lint/expected.py.
.PHONY: tests-known
tests-known:
	@echo $(have_check) $(TESTS)
TESTS += tests/system/check_ends.py tests/system/check_waiting.py tests/system/check_ports.py
