"""What every head of a model looks at."""

from typing import Any, NamedTuple


class AttentionWeights(NamedTuple):
    """The attention weights of every block and head; each row sums to 1, or is padding's, of zeros.

    Attributes:
        encoder: self-attention of each encoder block, a sequence of L float (B, N, S, S).
        decoder: masked self-attention of each decoder block, float (B, N, T, T).
        cross: attention of each decoder block to the encoder's output, float (B, N, T, S).
    """

    encoder: Any
    decoder: Any
    cross: Any
