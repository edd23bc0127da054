"""The work that contenders share: sizes, random data, and how much arithmetic it is.

A multiply-add counts as two operations, and a backward pass as two forward passes. Per token, with
widths D (model) and F (feed-forward), V pieces and n tokens a sentence, a forward pass takes

    encoder block       8 D^2 + 4 D F + 4 n D       projections, feed-forward, scores and outputs
    decoder block      12 D^2 + 4 D F + 8 n D       and 4 D^2 a source token for its keys and values
    output head         2 D V

The matrix products alone are counted, on padding too, and a causal score matrix in full: it is the
work as the batch states it, the same for every contender, whether or not one finds a way round it.
"""

import dataclasses

import numpy as np

PAD, START, END = 0, 2, 3
FIRST_WORD = 4
# Of translations: where the sum of log-probabilities is divided by a power of the length, that.
LENGTH_PENALTY = 0.6
TOKENIZER = "tokenizer.model"  # of a translator's folder, for SentencePiece


@dataclasses.dataclass(frozen=True)
class Size:
    """A model and its batches: encoder and decoder have `num_layers` blocks each."""

    num_layers: int
    model_dim: int
    intermediate_dim: int
    num_heads: int
    vocabulary_size: int
    batch_size: int
    length: int

    @property
    def positions(self):
        """Target tokens in a batch, padding counted."""
        return self.batch_size * self.length


SIZES = {
    "smoke": Size(1, 16, 32, 2, 97, 4, 8),
    "tiny": Size(4, 128, 256, 4, 8_000, 128, 24),
    "small": Size(6, 512, 1_024, 4, 10_000, 32, 32),
    "base": Size(6, 512, 2_048, 8, 32_000, 16, 32),
}
# The paper's batches of about 25,000 target tokens and its English-German vocabulary.
GPU_SIZES = {
    "base": Size(6, 512, 2_048, 8, 37_000, 384, 64),
    "big": Size(6, 1_024, 4_096, 16, 37_000, 384, 64),
}


@dataclasses.dataclass(frozen=True)
class Batches:
    """Teacher-forced batches: int32 arrays (number of batches, B, n), padded with `PAD`."""

    source: np.ndarray
    target: np.ndarray
    labels: np.ndarray

    @property
    def tokens(self):
        """Real target tokens in one batch, on average."""
        return float((self.labels != PAD).sum() / len(self.labels))

    def first(self, count):
        """Returns (source, target, labels) of the first batches as arrays (count * B, n)."""
        return tuple(
            np.ascontiguousarray(part[:count].reshape(-1, part.shape[-1]))
            for part in (self.source, self.target, self.labels)
        )


def random_batches(size, count, seed=0):
    """Returns `Batches` of random tokens, lengths uniform between 3/4 and all of the width."""
    random = np.random.default_rng(seed)
    shape = (count, size.batch_size, size.length)

    def sentences():
        lengths = random.integers(-(-3 * size.length // 4), size.length + 1, shape[:2])
        words = random.integers(FIRST_WORD, size.vocabulary_size, shape, dtype=np.int32)
        words[np.arange(size.length) >= lengths[..., None]] = PAD
        return words

    source, labels = sentences(), sentences()
    # The label at the end of each sentence is the end; the target is the labels, one place later.
    last = np.count_nonzero(labels, axis=-1, keepdims=True) - 1
    np.put_along_axis(labels, last, END, axis=-1)
    target = np.concatenate([np.full((*shape[:2], 1), START, np.int32), labels[..., :-1]], -1)
    target[labels == PAD] = PAD
    return Batches(source, target, labels)


def forward_flops(size):
    """Returns the operations of one forward pass over a batch; the formula is above."""
    d, f, n = size.model_dim, size.intermediate_dim, size.length
    encoder = 8 * d * d + 4 * d * f + 4 * n * d
    decoder = 12 * d * d + 4 * d * f + 8 * n * d + 4 * d * d
    head = 2 * d * size.vocabulary_size
    return size.positions * (size.num_layers * (encoder + decoder) + head)


def train_flops(size):
    """Returns the operations of one training step: a forward pass three times."""
    return 3 * forward_flops(size)


def num_parameters(size):
    """Returns the parameters of the Transformer with one tied embedding.

        V D + L (12 D^2 + 4 D F + 2 F + 24 D)

    12 D^2: the projections of three attentions; 4 D F: two feed-forward networks; 2 F + 24 D: their
    biases, 2 F + 2 D and 12 D, and five normalizations, 10 D.
    """
    d, f = size.model_dim, size.intermediate_dim
    return size.vocabulary_size * d + size.num_layers * (12 * d * d + 4 * d * f + 2 * f + 24 * d)


def training_bytes(size):
    """Returns the memory that a float32 training step needs: 16 P + 4 A bytes.

    P parameters are kept four times: weight, gradient and Adam's two moments. A are the values kept
    for the backward pass: of each token and block, what its products and norms take and give,

        encoder    12 D + 2 F + 2 N n        decoder    22 D + 2 F + 4 N n

    with N n attention weights before and after dropout. The logits are not among them: the loss is
    computed in blocks that are forgotten.
    """
    d, f = size.model_dim, size.intermediate_dim
    weights = size.num_heads * size.length
    block_values = (12 * d + 2 * f + 2 * weights) + (22 * d + 2 * f + 4 * weights)
    return 16 * num_parameters(size) + 4 * size.positions * size.num_layers * block_values
