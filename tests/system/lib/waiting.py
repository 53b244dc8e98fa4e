"""Waiting for what a cluster comes to, without overlooking a wrong answer on the way.

What a question may meet while a cluster settles has a class of its own, NotYet, and so have a connection that is refused
or cut.  Anything else that a condition raises is a finding: an answer that was wrong once is not mended by the next one.
Standard library only.
"""
import http.client
import re
import time

import tvframe

PATIENCE = 60.0             # seconds that a condition may take on a machine that has much else to do
# What a daemon says when one of them has made a mistake: no cluster grows out of that.
BLAME = re.compile(r"malformed|out of memory")


class NotYet(Exception):
    """What was asked for cannot be had now: there is no leader, somebody is not listed, an answer was refused."""


class Timeout(AssertionError):
    """The condition did not become true in time."""


# What is tried again: NotYet, and what a request meets whose daemon ends, starts or is late.
AGAIN = (NotYet, OSError, http.client.IncompleteRead, tvframe.Closed)


class Told(dict):
    """What a daemon told, by name: a name that is not there may come yet."""

    def __missing__(self, name):
        raise NotYet("no %r among %s" % (name, ", ".join(map(str, sorted(self))) or "nothing"))


def need(true, told):
    """Goes on if it is true.  Else NotYet, with what was told instead."""
    if not true:
        raise NotYet(repr(told))


def refusal(text, for_now=True):
    """The exception for an answer that says no: for_now tells whether the same question may be answered later."""
    return NotYet(text) if for_now and not BLAME.search(text) else AssertionError(text)


def wait_for(what, condition, timeout=PATIENCE, interval=0.05):
    """Polls condition() until it is true; returns its value.

    A condition that is not true yet says so by a value that is false, or by one of AGAIN.  What else it raises, an
    AssertionError above all, is raised here at once.
    """
    end = time.monotonic() + timeout
    while True:
        cause = None
        try:
            last = condition()
            if last:
                return last
        except AGAIN as e:
            last = cause = e
        if time.monotonic() > end:
            raise Timeout("%s: not within %.0f s (last: %r)" % (what, timeout, last)) from cause
        time.sleep(interval)
