"""The slopes of ALiBi's heads."""

import math


def alibi_slopes(num_heads):
    """Returns the slopes of the heads: 2^(-8/N), 2^(-16/N), ..., 2^-8 for N a power of two.

    Other N take the slopes of the power of two below, then every second one of the power above, as
    the reference code does.
    """
    below = 2 ** int(math.log2(num_heads))
    slopes = [2.0 ** (-8 * (head + 1) / below) for head in range(below)]
    between = [2.0 ** (-8 * (head + 1) / (2 * below)) for head in range(0, 2 * below, 2)]
    return slopes + between[: num_heads - below]
