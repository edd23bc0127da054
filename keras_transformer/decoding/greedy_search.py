"""Greedy search: the most probable token at each step."""

import keras
import numpy as np

from keras_transformer.arguments import check_number
from keras_transformer.decoding.result import make_result
from keras_transformer.decoding.scoring import best_tokens, length_penalty
from keras_transformer.decoding.search import Search
from keras_transformer.decoding.single_path import follow_paths


def greedy_search(model, source, prompt, prompt_length, numbers, *, max_length):
    """Greedy search as a pure function, see `GreedySearch`; `numbers` holds `length_penalty`."""
    tokens, scores, lengths = follow_paths(
        model,
        source,
        prompt,
        prompt_length,
        choose=most_probable,
        memory=(),
        num_paths=1,
        max_length=max_length,
    )
    scores = scores / length_penalty(lengths, numbers["length_penalty"])
    return make_result(tokens, scores, lengths, model.pad_id)


def most_probable(logits, memory, step):
    """Returns the token with the greatest logit, the first of equal ones; remembers nothing."""
    _, tokens = best_tokens(logits, 1)
    return tokens[:, 0], memory


@keras.saving.register_keras_serializable(package="keras_transformer")
class GreedySearch(Search):
    """Takes the most probable token at each step until the end token or the greatest length.

    The tokens and the score are those of `BeamSearch` of width 1, at less cost.

    Args:
        max_length: int, the greatest number of generated tokens; None is the source length + 50.
        length_penalty: float, at least 0: the exponent of the length penalty in the score. It
            changes no token; the default is that of `BeamSearch`, so that scores compare.

    Call arguments: `(model, source, prompt=None)`, see `Search.__call__`.

    Returns:
        `SearchResult`, K = 1.

    Raises:
        ValueError: where an argument is out of range.

    Example:

    ```python
    tokens, scores, lengths = GreedySearch(max_length=20)(model, source)
    ```
    """

    function = staticmethod(greedy_search)
    num_hypotheses = width = 1

    def __init__(self, max_length=None, length_penalty=0.6):
        super().__init__(max_length)
        check_number("length_penalty", length_penalty, "a number of at least 0", lambda x: x >= 0)
        self.length_penalty = length_penalty

    def choices(self):
        """The settings that shape the computation."""
        return {"max_length": self.max_length}

    def numbers(self):
        """The settings that are only numbers in it."""
        return {"length_penalty": np.float32(self.length_penalty)}

    def get_config(self):
        """Returns the arguments of `__init__`."""
        return {**super().get_config(), "length_penalty": self.length_penalty}
