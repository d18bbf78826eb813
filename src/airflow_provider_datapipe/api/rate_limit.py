"""
Limit of the requests per second of a connection. Pure: no I/O, and no clock of its own.

The clients use it through :mod:`.shared_rate_limit`.
"""

from __future__ import annotations

import math
import struct

#: The lowest rate after responses with status 429, in requests per second.
LOWEST_RATE = 0.1
#: Seconds of requests that can follow each other without a pause after an idle time. Longer bursts would exceed the
#: limit of a service that counts the requests of each second.
_BURST_SECONDS = 0.1
#: Seconds of continuous answers after which a rate of 0 would be back at the limit.
_RECOVERY_SECONDS = 300.0
#: The longest time without an answer that raises the rate, in seconds or intervals between two requests. An idle time
#: does not show that the service accepts more requests.
_LONGEST_STEP = 2.0
#: Seconds after a reduction in which the rate is not reduced again, because concurrent requests are refused together.
_REFUSED_TOGETHER = 1.0
#: Time of the next permit, rate as a share of the limit, times of the last increase, reduction and change.
_STATE = struct.Struct("<5d")
#: Number of bytes of a packed state.
STATE_SIZE = _STATE.size


class RateLimit:
    """
    Permits for requests: evenly spaced, with a short burst after an idle time.

    After a 429, the rate is halved. Each answer raises it a little, up to the limit. Processes that do not know each
    other therefore converge below the limit of the service (additive increase, multiplicative decrease).

    All times are seconds of one monotonic clock.

    :param most: the most requests per second.
    """

    def __init__(self, most: float) -> None:
        self.most = most
        self._share = 1.0
        self._free_at = self._raised_at = self._reduced_at = self._changed_at = -math.inf

    @property
    def rate(self) -> float:
        """Requests per second now."""
        return max(self.most * self._share, min(self.most, LOWEST_RATE))

    @property
    def is_reduced(self) -> bool:
        """True while the rate is below the limit because of a 429."""
        return self._share < 1

    def reserve(self, now: float, longest: float = math.inf) -> float | None:
        """
        Reserve the next permit, and return the seconds until it may be used.

        Return None and reserve nothing if they exceed the longest wait.

        Permits are granted in the order of the calls. In ``t`` seconds, at most ``rate * (t + 0.1)`` permits become
        usable, or ``rate * t + 1`` if this is more.

        :param now: current time.
        :param longest: the longest wait in seconds.
        """
        interval = 1 / self.rate
        at = max(self._free_at, now - max(_BURST_SECONDS - interval, 0.0))
        if at - now > longest:
            return None
        self._free_at = at + interval
        self._changed_at = now
        return max(at - now, 0.0)

    def refused(self, now: float) -> bool:
        """
        Halve the rate after a 429. Return True if it has changed.

        :param now: current time.
        """
        if now < self._reduced_at + _REFUSED_TOGETHER:
            return False
        before = self.rate
        self._share = max(before / 2, min(self.most, LOWEST_RATE)) / self.most
        self._raised_at = self._reduced_at = self._changed_at = now
        return self.rate < before

    def answered(self, now: float) -> None:
        """
        Raise a reduced rate after an answer.

        :param now: current time.
        """
        if self.is_reduced:
            seconds = min(now - self._raised_at, max(_LONGEST_STEP, _LONGEST_STEP / self.rate))
            self._share = min(1.0, self._share + max(seconds, 0.0) / _RECOVERY_SECONDS)
            self._raised_at = self._changed_at = now

    def pack(self) -> bytes:
        """Return the state, for another process on the machine."""
        return _STATE.pack(self._free_at, self._share, self._raised_at, self._reduced_at, self._changed_at)

    def unpack(self, state: bytes, now: float) -> None:
        """
        Take over a state. Ignore one that is damaged, older than this one, or from before a restart of the machine.

        :param state: the return value of :meth:`pack`; empty for none.
        :param now: current time.
        """
        if len(state) != STATE_SIZE:
            return
        values = free_at, share, raised_at, reduced_at, changed_at = _STATE.unpack(state)
        if any(math.isnan(value) for value in values) or not 0 < share <= 1:
            return
        if not self._changed_at <= changed_at <= now:
            return
        self._free_at, self._share = free_at, share
        self._raised_at, self._reduced_at, self._changed_at = raised_at, reduced_at, changed_at
