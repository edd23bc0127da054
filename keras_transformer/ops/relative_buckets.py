"""T5's buckets of distances: near ones apart, far ones together."""

import math


def relative_bucket(distance, num_buckets, max_distance, bidirectional):
    """Returns the bucket, 0 .. num_buckets - 1, of a distance = key position - query position.

    Half of a direction's buckets hold one distance each; the others grow as the logarithm up to
    `max_distance`, and the last one holds all beyond. Without `bidirectional` keys that come later
    share bucket 0 (they are masked there).

    Raffel et al. 2020, section 2.1.
    """
    if bidirectional:
        num_buckets //= 2
        first = num_buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        first = 0
        distance = max(-distance, 0)
    exact = num_buckets // 2
    if distance < exact:
        return first + distance
    share = math.log(distance / exact) / math.log(max_distance / exact)
    # A share that is a whole number of buckets must not be lost to rounding.
    return first + min(exact + int(share * (num_buckets - exact) + 1e-9), num_buckets - 1)
