"""Arithmetic of rotary positions (Su et al. 2021) and of their stretching to longer texts."""

import math

import numpy as np
from keras import ops


def rotary_rates(width, base=10000.0):
    """Returns float64 (width / 2,): the angle a position turns each pair by, base^(-2i / width)."""
    return base ** (-np.arange(0, width, 2, dtype="float64") / width)


def ntk_base(base, width, factor):
    """Returns the base that stretches the slowest pair by `factor` and leaves the fastest alone."""
    return base * factor ** (width / (width - 2))


def yarn_rates(width, base, factor, original_length, beta_fast, beta_slow):
    """Returns float64 (width / 2,): fast pairs kept, slow pairs stretched, a ramp in between.

    Peng et al. 2023, section 3.2 ("NTK-by-parts"): a pair is fast that turns more than `beta_fast`
    times in `original_length` tokens, and slow if it turns fewer than `beta_slow` times.
    """

    def pair_that_turns(times):
        return width * math.log(original_length / (times * 2 * math.pi)) / (2 * math.log(base))

    low = max(math.floor(pair_that_turns(beta_fast)), 0)
    high = min(math.ceil(pair_that_turns(beta_slow)), width - 1)
    ramp = np.clip((np.arange(width // 2) - low) / max(high - low, 0.001), 0, 1)
    rates = rotary_rates(width, base)
    return rates * (1 - ramp) + rates / factor * ramp


def llama3_rates(width, base, factor, original_length, beta_fast, beta_slow):
    """Returns float64 (width / 2,): as `yarn_rates`, but the ramp goes by turns, not by pairs."""
    rates = rotary_rates(width, base)
    turns = original_length * rates / (2 * math.pi)
    kept = np.clip((turns - beta_slow) / (beta_fast - beta_slow), 0, 1)
    return rates * kept + rates / factor * (1 - kept)


def rotate_pairs(heads, positions, rates, interleaved, magnitude=1.0):
    """Turns the first 2P entries of each head, pair by pair, by position x rate.

    Args:
        heads: (B, T, N, H). positions: int (B|1, T). rates: float (P,), 2P <= H.
        interleaved: whether a pair is (2i, 2i+1), as in the paper, or (i, P + i).
        magnitude: float that multiplies what is turned.

    Returns:
        (B, T, N, H) of the same dtype; angles and products are float32.
    """
    pairs = len(rates)
    places = ops.cast(positions, "float32")[:, :, None, None]
    angles = ops.multiply(places, rates.astype("float32"))  # (B|1, T, 1, P)
    cos = ops.multiply(ops.cos(angles), magnitude)  # (B|1, T, 1, P)
    sin = ops.multiply(ops.sin(angles), magnitude)
    turned = ops.cast(heads[..., : 2 * pairs], "float32")
    if interleaved:
        first, second = turned[..., 0::2], turned[..., 1::2]
    else:
        first, second = turned[..., :pairs], turned[..., pairs:]
    both = [first * cos - second * sin, first * sin + second * cos]
    if interleaved:
        turned = ops.reshape(ops.stack(both, axis=-1), ops.shape(turned))
    else:
        turned = ops.concatenate(both, axis=-1)
    turned = ops.cast(turned, heads.dtype)
    if 2 * pairs == heads.shape[-1]:
        return turned
    return ops.concatenate([turned, heads[..., 2 * pairs :]], axis=-1)
