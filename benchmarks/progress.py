"""What a measurement is doing, and how long it will take, on standard error."""

import sys
import time


class Progress:
    """Shows the turns of a measurement and estimates the time left from those done.

    Args:
        title: str, of the measurement.
        rounds: int, how many there are.
    """

    def __init__(self, title, rounds):
        self.title = title
        self.rounds = rounds
        self._since = time.perf_counter()
        self._spent = 0.0
        self._turns = 0
        self._width = 0

    def say(self, message):
        """Shows a message in place of the one before; on a line of its own if not on a terminal."""
        line = f"{self.title}: {message}" if self.title else message
        if sys.stderr.isatty():
            print("\r" + line.ljust(self._width), end="", file=sys.stderr, flush=True)
            self._width = len(line)
        else:
            print(line, file=sys.stderr, flush=True)
        self._since = time.perf_counter()

    def turn_done(self, number, name, turns_a_round):
        """Says that a turn of round `number`, counted from 0, is done."""
        self._turns += 1
        self._spent += time.perf_counter() - self._since
        left = self._spent / self._turns * max(self.rounds * turns_a_round - self._turns, 0)
        self.say(f"round {number + 1} of {self.rounds}, {name} done, {in_words(left)} left")

    def close(self):
        """Ends the line."""
        if self._width:
            print(file=sys.stderr)


def in_words(seconds):
    """Returns a time in words.

    >>> in_words(74)
    '1 min 14 s'
    """
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
