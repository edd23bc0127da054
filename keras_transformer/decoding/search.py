"""What all searches have in common."""

import keras
import numpy as np
from keras import ops

from keras_transformer.arguments import check_positive_or_none
from keras_transformer.decoding.compilation import compiled
from keras_transformer.decoding.inputs import (
    check_lengths,
    check_model,
    prepare_inputs,
    resolve_max_length,
)
from keras_transformer.decoding.result import SearchResult
from keras_transformer.ops import backend


class Search:
    """Finds output tokens for a batch of sources, with any model that follows a small protocol.

    A model has the integers `start_id`, `end_id`, `pad_id` and `vocabulary_size`, and two methods
    of pure tensor code:

    - `start(source, max_length) -> DecodingState`: reads the source (B, ...) and makes room for
      `max_length` target tokens in each of B rows;
    - `step(tokens, state) -> (logits, state)`: reads the next T tokens of each row, int32 (R, T),
      and returns the logits (R, V) of the token after them. R is B, or B * K with the K hypotheses
      of a sentence side by side.

    A model whose output may end with other tokens too has them in `other_end_ids`.

    A model that has positions for so many tokens only says so by two more: `max_target_length`, int
    or None, and `check_lengths(source_length, target_length)`, which raises.

    Weights are found in `model.variables`; a trained model that is searched again is seen as it is
    now. On TensorFlow a search is compiled by XLA, which makes one operation of many small ones. A
    model that XLA cannot compile says so by `supports_jit = False`, as a Keras layer does.

    A subclass gives `num_hypotheses`, how many a sentence gets, and `width`, how many are followed;
    `function`, the search as a pure function
    `(model, source, prompt, prompt_length, numbers, **choices) -> SearchResult`; `choices()`, the
    settings that shape the computation (a change compiles anew); and `numbers()`, those that are
    only numbers in it (a change costs nothing).

    Args:
        max_length: int, the greatest number of generated tokens with the end token. None is the
            source length + 50 (Vaswani et al. 2017, section 6.1), where the length is that of the
            padded source; a call pads it to a multiple of 8.
    """

    def __init__(self, max_length=None):
        check_positive_or_none(max_length=max_length)
        self.max_length = max_length

    def best_only(self):
        """Returns the search for who wants the best hypothesis of each sentence alone."""
        return self

    def __call__(self, model, source, prompt=None):
        """Searches a batch, compiled once for each bucket of shapes on TensorFlow and JAX.

        The batch is filled up to a power of two, source and prompt to multiples of 8; no row's
        result depends on the others or on the filling.

        Args:
            model: the model, see above.
            source: int (B, S), token ids padded with the model's `pad_id`; or, with `max_length`
                given, dicts or tuples of arrays (B, ...) as the model's `start` takes them.
            prompt: int (B, P), tokens that every hypothesis starts with and that are not returned;
                all of one length. None is the start token.

        Returns:
            `SearchResult` of numpy arrays. An empty batch gives an empty result.

        Raises:
            ValueError: where the model lacks a part or has no positions for as many tokens as the
                search may read, or the ids are not rectangular, integer, in the vocabulary and one
                row a sentence.
        """
        check_model(model)
        fewest = -(-backend.fewest_rows() // self.width)
        inputs = prepare_inputs(model, source, prompt, fewest)
        if inputs.batch_size == 0:
            return self._empty_result(inputs.source)
        check_lengths(model, inputs, self.max_length)
        search = compiled(model, self.function, **self.choices())
        result = search(inputs.source, inputs.prompt, inputs.prompt_length, self.numbers())
        return SearchResult(*(ops.convert_to_numpy(part)[: inputs.batch_size] for part in result))

    def decode(self, model, source, prompt=None):
        """Searches in the graph at hand: pure tensor code, to be traced with what is around it.

        Args:
            model, source, prompt: as in a call, but tensors, neither checked nor padded. On
                TensorFlow the batch and the source length may be unknown.

        Returns:
            `SearchResult` of tensors, with L the greatest length.

        Raises:
            ValueError: where the length of the prompt is not known.
        """
        if prompt is None:
            batch_size = ops.shape(keras.tree.flatten(source)[0])[0]
            prompt = ops.full((batch_size, 1), model.start_id, dtype="int32")
        if prompt.shape[1] is None:
            raise ValueError(
                "`prompt` must have a known length in a graph; got shape "
                f"{tuple(prompt.shape)}. Give it one, or leave the prompt out."
            )
        numbers = keras.tree.map_structure(ops.convert_to_tensor, self.numbers())
        return self.function(model, source, prompt, None, numbers, **self.choices())

    def get_config(self):
        """Returns the arguments of `__init__`."""
        return {"max_length": self.max_length}

    @classmethod
    def from_config(cls, config):
        """Returns the search that `get_config` describes."""
        return cls(**config)

    def _empty_result(self, source):
        length = resolve_max_length(source, self.max_length)
        shape = (0, self.num_hypotheses)
        return SearchResult(
            np.zeros((*shape, length), "int32"),
            np.zeros(shape, "float32"),
            np.zeros(shape, "int32"),
        )
