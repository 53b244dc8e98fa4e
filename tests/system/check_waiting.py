#!/usr/bin/env python3
"""lib/waiting.py lets no wrong answer pass: what is tried again, what is not, and what is said in the end."""
import http.client
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import ends  # noqa: E402
import tvframe  # noqa: E402
from cluster import Answer  # noqa: E402
from raftcluster import Ended  # noqa: E402
from waiting import NotYet, Timeout, Told, need, refusal, wait_for  # noqa: E402


class Steps:
    """A condition: what each call of it raises or returns in turn, the last for ever."""

    def __init__(self, *steps):
        self.steps, self.calls = steps, 0

    def __call__(self):
        step = self.steps[min(self.calls, len(self.steps) - 1)]
        self.calls += 1
        if isinstance(step, BaseException):
            raise step
        return step() if callable(step) else step


def raised(function, *args):
    """What it raises, or None."""
    try:
        function(*args)
    except Exception as e:              # noqa: BLE001 - the one who asked judges it
        return e
    return None


def answer(status, text=""):
    return Answer(status, {}, text.encode())


def test_wrong_once_is_wrong():
    """Right the next time, and yet it fails: at the first call, with what was raised."""
    for wrong in (AssertionError("the value is of another key"), Ended("raftd of n1 ended with 1"), ends.BadEnd("signal 11"),
                  Timeout("what it waits for itself"), ValueError("no JSON"), KeyError("Value"), IndexError("empty"),
                  TypeError("no list"), AttributeError("None"), http.client.BadStatusLine("garbage")):
        condition = Steps(None, wrong, True)
        assert raised(wait_for, "it", condition) is wrong and condition.calls == 2, wrong


def test_not_yet_is_tried_again():
    told = Told(n1=1)
    condition = Steps(NotYet("no leader"), False, ConnectionRefusedError(), TimeoutError(), http.client.IncompleteRead(b"x"),
                      http.client.RemoteDisconnected(), tvframe.Closed("reset"), lambda: told["n2"], lambda: need(0, "n1 only"),
                      [], "the value")
    assert wait_for("it", condition, interval=0) == "the value" and condition.calls == 11
    told["n2"] = 4
    assert told["n2"] == 4 and told.get("n3") is None


def test_the_end_says_what_was_last():
    for last, said in ((NotYet("500 No cluster leader"), "NotYet('500 No cluster leader')"), ([], "[]"), (None, "None"),
                       (ConnectionRefusedError("refused"), "ConnectionRefusedError('refused')")):
        e = raised(wait_for, "a leader", Steps(NotYet("before"), last), 0.2, 0.01)
        assert isinstance(e, Timeout) and str(e) == "a leader: not within 0 s (last: %s)" % said, e
        assert e.__cause__ is (last if isinstance(last, Exception) else None), e.__cause__
    # However late it is, it is asked once more before the end.
    assert wait_for("it", Steps(True), 0) is True
    assert not issubclass(NotYet, AssertionError) and issubclass(Timeout, AssertionError)


def test_answers():
    """Which refusals may end by themselves."""
    for later in (answer(500, "No cluster leader"), answer(500, "rpc error making call: EOF"), answer(503, "too many")):
        assert isinstance(raised(later.ok), NotYet) and isinstance(raised(later.json), NotYet), later
    for wrong in (answer(400, "Bad request"), answer(403, "Permission denied"), answer(500, "malformed answer"),
                  answer(500, "malformed reply from gossipd"), answer(500, "out of memory"), answer(301)):
        assert isinstance(raised(wrong.ok), AssertionError) and isinstance(raised(wrong.json), AssertionError), wrong
    gone = answer(404)
    assert isinstance(raised(gone.json), NotYet) and isinstance(raised(gone.ok), AssertionError)
    assert gone.ok(200, 404) is gone
    assert answer(200, "[1]").json() == [1] and answer(429, "{}").json() == {} and answer(200).ok().status == 200
    assert isinstance(raised(answer(200, "no JSON").json), ValueError)
    assert isinstance(raised(lambda: need(False, "it")), NotYet) and need(True, "it") is None
    assert isinstance(refusal("x"), NotYet) and isinstance(refusal("x", False), AssertionError)


def main():
    tests = [f for name, f in list(globals().items()) if name.startswith("test_")]
    failed = 0
    for t in tests:
        e = raised(t)
        if e is not None:
            failed += 1
            print("FAIL %s: %r" % (t.__name__, e))
    print("%d passed, %d failed" % (len(tests) - failed, failed))
    return 1 if failed else 0


sys.exit(main())
