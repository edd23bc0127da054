"""Seeds for the dropout of the parts of a layer or model."""

import zlib


def dropout_seed(seed, name):
    """Returns a seed of its own for the part of that name, from the seed of the whole (or None).

    Two dropout layers of one seed would drop the same entries at every step.
    """
    return None if seed is None else zlib.crc32(f"{seed} {name}".encode()) >> 1
