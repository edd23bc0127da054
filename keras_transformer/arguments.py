"""Checks of arguments at the door; errors name argument, rule, value and remedy."""

import math
import numbers

import numpy as np


def check_positive(**sizes):
    """Raises ValueError naming the size that is not an integer of at least 1."""
    for name, value in sizes.items():
        if not is_integer(value) or value < 1:
            raise ValueError(f"`{name}` must be a positive integer; got {value!r}. Pass 1 or more.")


def check_positive_or_none(**sizes):
    """Like `check_positive`; None is allowed and stands for a default."""
    check_positive(**{name: value for name, value in sizes.items() if value is not None})


def check_from_zero(**counts):
    """Raises ValueError naming the count that is not an integer of at least 0."""
    for name, value in counts.items():
        if not is_integer(value) or value < 0:
            raise ValueError(f"`{name}` must be an integer from 0; got {value!r}. Take 0 for none.")


def check_flags(**flags):
    """Raises ValueError naming the flag that is not a boolean."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"`{name}` must be True or False; got {value!r}. Pass one of the two.")


def check_id_or_none(**ids):
    """Raises ValueError naming the token id that is neither an integer of at least 0 nor None."""
    for name, value in ids.items():
        if value is not None and (not is_integer(value) or value < 0):
            raise ValueError(
                f"`{name}` must be an integer of at least 0, or None; got {value!r}. Pass the "
                "tokenizer's id."
            )


def check_rates(**rates):
    """Raises ValueError naming the share, such as a dropout rate, that is no number in [0, 1)."""
    for name, value in rates.items():
        if not _is_number(value) or not 0 <= value < 1:
            raise ValueError(f"`{name}` must be in [0, 1); got {value!r}. Take 0 for none.")


def check_above_zero(**values):
    """Raises ValueError naming the value that is not a finite number above 0."""
    check_above(0, **values)


def check_above(bound, **values):
    """Raises ValueError naming the value that is not a finite number above a bound."""
    for name, value in values.items():
        if not _is_number(value) or not bound < value < math.inf:
            raise ValueError(
                f"`{name}` must be above {bound}; got {value!r}. Pass a finite number above it."
            )


def check_number(name, value, rule, holds):
    """Raises where an argument is not a finite number that `holds`; `rule` says so in words."""
    if not _is_number(value) or not (math.isfinite(value) and holds(value)):
        raise ValueError(f"`{name}` must be {rule}; got {value!r}. Pass such a number.")


def is_integer(value):
    """Returns whether a value is a whole number, of Python or NumPy, and no boolean."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
