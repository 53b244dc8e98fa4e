# Libraries that tests preload into daemons.  Built for `make check`; plain also in sanitizer builds, whose runtime must
# come before them: see system/lib/diskfault.py.
check_DATA = tests/faults/diskfault.so
CLEANFILES += tests/faults/diskfault.so
EXTRA_DIST += tests/faults/diskfault.c tests/faults/diskfault.h tests/faults/README.md tests/system/lib/diskfault.py
dist_check_SCRIPTS += tests/faults/check_diskfault.py
TESTS += tests/faults/check_diskfault.py
tests/faults/diskfault.so: tests/faults/diskfault.c tests/faults/diskfault.h
	$(AM_V_CC)$(MKDIR_P) tests/faults && $(CC) -std=gnu17 -I$(top_srcdir) -O2 -Wall -Wextra -U_FORTIFY_SOURCE -fPIC -shared \
		-o $@ $(top_srcdir)/tests/faults/diskfault.c -ldl
