"""Checks of arguments at the door; errors name argument, rule, value and remedy."""

import numbers


def check_positive(**sizes):
    """Raises ValueError naming the size that is not an integer of at least 1."""
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"`{name}` must be a positive integer; got {value!r}. Pass 1 or more.")


def check_positive_or_none(**sizes):
    """Like `check_positive`; None is allowed and stands for a default."""
    check_positive(**{name: value for name, value in sizes.items() if value is not None})


def check_id_or_none(**ids):
    """Raises ValueError naming the token id that is neither an integer of at least 0 nor None."""
    for name, value in ids.items():
        is_id = isinstance(value, numbers.Integral) and not isinstance(value, bool) and value >= 0
        if not (value is None or is_id):
            raise ValueError(
                f"`{name}` must be an integer of at least 0, or None; got {value!r}. Pass the "
                "tokenizer's id."
            )


def check_rates(**rates):
    """Raises ValueError naming the share, such as a dropout rate, that is no number in [0, 1)."""
    for name, value in rates.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= value < 1:
            raise ValueError(f"`{name}` must be in [0, 1); got {value!r}. Take 0 for none.")


def check_above_zero(**values):
    """Raises ValueError naming the value that is not a number above 0."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not value > 0:
            raise ValueError(f"`{name}` must be above 0; got {value!r}. Pass a positive number.")
