# tests: gossip

# Client for the daemons' unix sockets, used by tests/system.
dist_check_SCRIPTS += tests/system/lib/tvframe.py
TESTS += tests/system/lib/tvframe.py
