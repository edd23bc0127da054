"""Sampling: tokens drawn from the model's distribution."""

import random

import keras
import numpy as np
from keras import ops

from keras_transformer.arguments import (
    check_from_zero,
    check_number,
    check_positive,
    check_positive_or_none,
)
from keras_transformer.decoding.filters import in_nucleus, penalize_repetition
from keras_transformer.decoding.result import make_result
from keras_transformer.decoding.scoring import (
    MINUS_INFINITY,
    best_first,
    best_tokens,
    take_hypotheses,
)
from keras_transformer.decoding.search import Search
from keras_transformer.decoding.single_path import follow_paths
from keras_transformer.ops import backend


def draw(logits, num_samples, seed, step):
    """Draws from softmax(logits) by the Gumbel-max trick: argmax of logits + noise.

    The noise depends on the seed, the step and the number of the sample, not on the sentence's
    place
    in the batch: a sentence's samples are the same alone and in any batch.

    Args:
        logits: float32 (R, C), minus infinity where a token must not be drawn.
        num_samples: int, K; row r holds sample r % K. seed, step: int32 scalars.

    Returns:
        Places int32 (R,).
    """
    count = logits.shape[-1]
    noise = -ops.log(-ops.log(backend.uniform((num_samples, count), seed, step)))
    noisy = ops.reshape(logits, (-1, num_samples, count)) + noise
    return ops.reshape(ops.cast(ops.argmax(noisy, axis=-1), "int32"), (-1,))


def sample(
    model,
    source,
    prompt,
    prompt_length,
    numbers,
    *,
    num_samples,
    max_length,
    top_k,
    top_p,
    penalize,
):
    """Sampling as a pure function, see `Sampling`; `top_p`, `penalize`: whether those apply."""

    def choose(logits, seen, step):
        if penalize:
            logits = penalize_repetition(logits, seen, numbers["repetition_penalty"])
        logits = logits / numbers["temperature"]
        tokens = None
        if top_k is not None or top_p:
            logits, tokens = best_tokens(logits, top_k or model.vocabulary_size)
        if top_p:
            logits = ops.where(in_nucleus(logits, numbers["top_p"]), logits, MINUS_INFINITY)
        chosen = draw(logits, num_samples, numbers["seed"], step)
        if tokens is not None:
            chosen = take_hypotheses(tokens, chosen[:, None])[:, 0]
        return chosen, ops.logical_or(seen, is_token(chosen, model)) if penalize else seen

    seen = ()
    if penalize:
        seen = ops.any(is_token(prompt, model), axis=1)
        seen = ops.repeat(seen, num_samples, axis=0)
    tokens, scores, lengths = follow_paths(
        model,
        source,
        prompt,
        prompt_length,
        choose=choose,
        memory=seen,
        num_paths=num_samples,
        max_length=max_length,
    )
    best = best_first(scores, num_samples)
    parts = (take_hypotheses(part, best) for part in (tokens, scores, lengths))
    return make_result(*parts, model.pad_id)


def is_token(tokens, model):
    """Returns tokens (...) as one-hot bool (..., V)."""
    return tokens[..., None] == ops.arange(model.vocabulary_size, dtype="int32")


@keras.saving.register_keras_serializable(package="keras_transformer")
class Sampling(Search):
    """Draws each token from softmax(logits / temperature), from the most probable ones if so told.

    In this order: repetition penalty, temperature, `top_k`, `top_p`, the draw. The score of a
    sample is its log-probability under the model as it is, without these.

    A sentence's samples depend on the seed and on the sentence, not on the batch around it; equal
    sentences in a batch get equal samples, so ask for several with `num_samples`.

    Args:
        temperature: float, above 0; below 1 sharpens.
        top_k: int, how many of the most probable tokens may be drawn; None is all.
        top_p: float in (0, 1], the probability of the smallest set of tokens that may be drawn
            (Holtzman et al. 2020, section 3.1); None is all.
        repetition_penalty: float, above 0; above 1 makes tokens of the prompt and of the sample so
            far less probable (Keskar et al. 2019, section 4.1).
        seed: int, at least 0, for the same samples at every call; None draws a new one at each call
            from Python's `random`, which `keras.utils.set_random_seed` sets (`decode` draws when
            traced).
        max_length: int, the greatest number of generated tokens; None is the source length + 50.
        num_samples: int, samples of each sentence.

    Call arguments: `(model, source, prompt=None)`, see `Search.__call__`.

    Returns:
        `SearchResult`, K = num_samples, the most probable sample first.

    Raises:
        ValueError: where an argument is out of range.

    Example:

    ```python
    search = Sampling(temperature=0.8, top_p=0.95, seed=7, num_samples=3)
    tokens, scores, lengths = search(model, source)
    ```
    """

    function = staticmethod(sample)

    def __init__(
        self,
        temperature=1.0,
        top_k=None,
        top_p=None,
        repetition_penalty=1.0,
        seed=None,
        max_length=None,
        num_samples=1,
    ):
        super().__init__(max_length)
        check_positive_or_none(top_k=top_k)
        check_positive(num_samples=num_samples)
        check_number("temperature", temperature, "a number above 0", lambda x: x > 0)
        check_number("repetition_penalty", repetition_penalty, "a number above 0", lambda x: x > 0)
        if top_p is not None:
            check_number("top_p", top_p, "None or a number in (0, 1]", lambda x: 0 < x <= 1)
        if seed is not None:
            check_from_zero(seed=seed)
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.repetition_penalty = repetition_penalty
        self.seed = seed
        self.num_samples = num_samples

    @property
    def num_hypotheses(self):
        """How many hypotheses a sentence gets, K."""
        return self.num_samples

    width = num_hypotheses

    def choices(self):
        """The settings that shape the computation."""
        return {
            "num_samples": self.num_samples,
            "max_length": self.max_length,
            "top_k": self.top_k,
            "top_p": self.top_p is not None,
            "penalize": self.repetition_penalty != 1,
        }

    def numbers(self):
        """The settings that are only numbers in it."""
        seed = random.getrandbits(31) if self.seed is None else self.seed
        # Backends add seed and step, or hash them; far apart, seeds of two calls share no step.
        mixed = np.random.SeedSequence(seed).generate_state(1)[0] >> 1
        return {
            "temperature": np.float32(self.temperature),
            "top_p": np.float32(1.0 if self.top_p is None else self.top_p),
            "repetition_penalty": np.float32(self.repetition_penalty),
            "seed": np.int32(mixed),
        }

    def get_config(self):
        """Returns the arguments of `__init__`."""
        names = ("temperature", "top_k", "top_p", "repetition_penalty", "seed", "num_samples")
        return {**{name: getattr(self, name) for name in names}, **super().get_config()}
