# The nemesis needs root and minutes: .ci/run starts it.  Its checkers are checked here.
EXTRA_DIST += tests/nemesis/README.md tests/nemesis/nemesis tests/nemesis/soak tests/nemesis/lib
dist_check_SCRIPTS += tests/nemesis/check_histories.py tests/nemesis/check_rights.py
TESTS += tests/nemesis/check_histories.py tests/nemesis/check_rights.py
