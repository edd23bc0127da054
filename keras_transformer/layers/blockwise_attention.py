"""Exact attention in memory that grows with the length, not with its square."""

import keras

from keras_transformer.arguments import check_positive
from keras_transformer.layers.attention_mechanism import Attended, ExactAttention
from keras_transformer.ops.attention import dense_attention
from keras_transformer.ops.blockwise_attention import blockwise_attention


@keras.saving.register_keras_serializable(package="keras_transformer")
class BlockwiseAttention(ExactAttention):
    """Exact attention, one block of the scores at a time: O(n) memory, forward and backward.

        softmax(Q K^T scale + bias) V, the softmax summed up over blocks of keys

    The backward pass makes each block again instead of keeping it. Masks, biases, causal and cross-
    attention, grouped heads, dropout and a soft cap give what `DenseAttention` gives (dropout: the
    same distribution); blocks that nobody may see are not visited. It returns no attention scores.

    Args:
        block_size: int, the longest block of queries or keys; memory grows with its square, and
            small blocks are slow.

    Raises:
        ValueError: if `block_size` is not a positive integer.

    >>> attention = MultiHeadAttention(num_heads=2, key_dim=8, mechanism=BlockwiseAttention(256))

    Reference: Rabe and Staats 2021; Dao et al. 2022 (FlashAttention), section 3.1 and appendix B.
    """

    def __init__(self, block_size=512, **kwargs):
        super().__init__(**kwargs)
        check_positive(block_size=block_size)
        self.block_size = block_size

    def attend(self, query, key, value, request):
        if few_scores(query, key, self.block_size):
            return Attended(dense_attention(query, key, value, request)[0])
        return Attended(blockwise_attention(query, key, value, request, self.block_size))

    def refusal(self, request):
        if request.return_scores:
            return 'blockwise attention keeps no attention scores; mechanism="dense" returns them'
        return super().refusal(request)

    def get_config(self):
        return {**super().get_config(), "block_size": self.block_size}


def few_scores(query, key, block_size):
    """Returns whether all scores together are no more than one block: short texts, decoding."""
    rows, columns = query.shape[1], key.shape[1]
    return rows is not None and columns is not None and rows * columns <= block_size**2
