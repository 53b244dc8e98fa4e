# Libraries that tests preload into daemons.  Built for `make check`; plain also in sanitizer builds, whose runtime must
# come before them: see system/lib/diskfault.py.
fault_preloads = tests/faults/diskfault.so tests/faults/clockfault.so tests/faults/loopfile.so
check_DATA = $(fault_preloads)
CLEANFILES += $(fault_preloads)
EXTRA_DIST += tests/faults/README.md tests/faults/diskfault.c tests/faults/diskfault.h tests/faults/clockfault.c \
	tests/faults/clockfault.h tests/faults/loopfile.c tests/system/lib/preloads.py tests/system/lib/diskfault.py tests/system/lib/clockfault.py
fault_checks = tests/faults/check_diskfault.py tests/faults/check_clockfault.py tests/faults/check_loopfile.py
dist_check_SCRIPTS += $(fault_checks)
TESTS += $(fault_checks)
fault_build = $(MKDIR_P) tests/faults && $(CC) -std=gnu17 -I$(top_srcdir) -O2 -Wall -Wextra -U_FORTIFY_SOURCE -fPIC -shared
tests/faults/diskfault.so: tests/faults/diskfault.c tests/faults/diskfault.h
	$(AM_V_CC)$(fault_build) -o $@ $(top_srcdir)/tests/faults/diskfault.c -ldl
tests/faults/clockfault.so: tests/faults/clockfault.c tests/faults/clockfault.h
	$(AM_V_CC)$(fault_build) -o $@ $(top_srcdir)/tests/faults/clockfault.c -ldl
tests/faults/loopfile.so: tests/faults/loopfile.c config.h
	$(AM_V_CC)$(fault_build) -I. -o $@ $(top_srcdir)/tests/faults/loopfile.c -ldl
