"""What a token may do, as far as anybody can know who changes it: each change takes effect at some moment between its question and
its answer, or, where no answer came, at any moment after the question, or never.

Pure.  Of what came of a question with a token it says what is wrong, or None.  A scope is what a rule is about: ("key", 2).
"""
import math
import threading

READ, WRITE = "read", "write"


class Token:
    """The states of one secret, each with the earliest and the latest moment at which it may have held."""

    def __init__(self, name, secret="", accessor=""):
        self.name, self.secret, self.accessor = name, secret, accessor
        self.lock = threading.Lock()
        self.states = [[-math.inf, math.inf, {}]]       # before it is made it may do nothing

    def __str__(self):
        return self.name

    def asked(self, start, rights):
        """From now on it may have these: {scope: READ or WRITE}.  To be called before the question is sent."""
        with self.lock:
            self.states.append([start, math.inf, dict(rights)])

    def answered(self, end):
        """The last change is done: none of the states before it holds after this."""
        with self.lock:
            for s in self.states[:-1]:
                s[1] = min(s[1], end)

    def _states(self, start, end):
        with self.lock:
            return [rights for earliest, latest, rights in self.states if earliest <= end and latest >= start]

    @staticmethod
    def _grants(rights, scope, level):
        return rights.get(scope) in ((WRITE,) if level == WRITE else (READ, WRITE))

    def may(self, scope, level, start, end=math.inf):
        """Could it have had this right at a moment between the two?"""
        return any(self._grants(r, scope, level) for r in self._states(start, end))

    def lacks(self, scope, level, start, end=math.inf):
        """Could it have lacked it?"""
        return not all(self._grants(r, scope, level) for r in self._states(start, end))

    def told(self, scope):
        """Its history, for a finding."""
        with self.lock:
            return "; ".join("%.4f..%.4f %s" % (a, b, r.get(scope, "nothing")) for a, b, r in self.states)


def _say(what, token, scope, start, end):
    return "%s: token %s, %s %s, %.4f..%.4f; its rights to that: %s" % (what, token, *scope, start, end, token.told(scope))


def done(token, scope, start, end):
    """A write was acknowledged (end), or was seen to have been done by then; math.inf: it may have been done at any time."""
    if not token.may(scope, WRITE, start, end):
        return _say("a write without the right to it", token, scope, start, end)
    return None


def denied(token, scope, level, start, end):
    if not token.lacks(scope, level, start, end):
        return _say("denied, with the right to %s" % level, token, scope, start, end)
    return None


def shown(token, scope, start, end):
    """A read showed what is there.  start: the earliest moment of the state that it may be of."""
    if not token.may(scope, READ, start, end):
        return _say("shown, without the right to read", token, scope, start, end)
    return None


def stale_start(start, written, contact, bound):
    """The same moment, of a stale read: it has the writes that were asked for at these moments; its server heard from a leader
    `contact` seconds before (None: knows none), and by then has applied what was acknowledged `bound` seconds earlier."""
    return max([-math.inf, *written, *([start - contact - bound] if contact is not None else [])])


def trail(line, asked):
    """A line of the audit trail about a write that was done.  asked: accessors that asked for that through this node."""
    if line["accessor"] not in asked:
        return "the trail says that %s wrote %s, which %s asked for" % (line["accessor"], line["name"], ", ".join(sorted(asked)))
    return None
