"""A functional model whose head and loss never hold the full matrix of logits during `fit`."""

import contextlib
import functools
import inspect
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.arguments import check_positive
from keras_transformer.layers.quantization_record import QuantizationRecord, quantized_layers
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.models.resumable import Resumable
from keras_transformer.models.stacks import check_input_names
from keras_transformer.ops.backend import forget_gradients, needs_known_rows, prompt_pipelines
from keras_transformer.ops.cross_entropy import TokenStatistics, head_statistics, token_statistics
from keras_transformer.training.sequence_crossentropy import (
    SequenceCrossentropy,
    mean_over_tokens,
    target_ids,
    token_weights,
)
from keras_transformer.training.token_metrics import TokenLoss, TokenMetric

INTEGER_MODES = ("int8", "int4", "gptq", "awq")


class ScoredTokens(NamedTuple):
    """What a step of `fit` has in place of logits.

    Attributes:
        total: float32 scalar, the weighted sum of the losses, which carries the gradient.
        tokens: `TokenStatistics`, which carry none.
    """

    total: Any
    tokens: Any


def split_batch(batch, count):
    """Returns the batch, nested tensors (B, ...) or None, as `count` parts of about B / count rows.

    Where B is known there are at most B parts; else some may be empty.
    """
    rows = ops.shape(keras.tree.flatten(batch)[0])[0]
    count = min(count, rows) if isinstance(rows, int) else count
    ends = [rows * number // count for number in range(count + 1)]

    def part(number):
        def rows_of(tensor):
            return None if tensor is None else tensor[ends[number] : ends[number + 1]]

        return keras.tree.map_structure(rows_of, batch)

    return [part(number) for number in range(count)]


@keras.saving.register_keras_serializable(package="keras_transformer")
class SequenceModel(Resumable, QuantizationRecord, keras.Model):
    """`keras.Model(inputs, logits)` for logits made by `TokenEmbedding(..., reverse=True)`.

    It trains and scores like any functional model, and `model(x)` and `predict` return logits.
    Compiled with `SequenceCrossentropy` and token metrics (`TokenAccuracy`, `Perplexity`), `fit`
    and `evaluate` compute head, loss and metrics in blocks of rows without padding
    (`ops.cross_entropy.head_statistics`): the same numbers, a fraction of the time and memory. The
    reported loss is a mean over tokens, whatever the batches, without the penalties of
    regularizers, which the gradient has. With another loss or metric it makes logits as usual.

    `compile(..., batch_parts=n)` lets `fit` read a batch as n parts whose operations do not wait
    for one another: the same loss and gradient, up to rounding, to what dropout drops and to a
    layer that looks at the whole batch, such as `BatchNormalization`. On TensorFlow on a CPU, told
    to run each operation on one core and n at once, a step takes less time, for no core waits for
    another within an operation.

    Args:
        inputs, outputs, name: as `keras.Model`.

    Raises:
        ValueError: by `compile`, if `batch_parts` is no positive integer, or above 1 with another
            loss or metric than those above, or where XLA compiles the step on TensorFlow; by
            `fit`, where with it a layer adds a loss of what it puts out.

    >>> tokens = keras.Input((None,), dtype="int32")
    >>> embedding = TokenEmbedding(vocabulary_size=11, model_dim=8)
    >>> model = SequenceModel(tokens, embedding(embedding(tokens), reverse=True))
    >>> model.compile("adam", loss=SequenceCrossentropy(), metrics=[TokenAccuracy()])
    """

    # The (labels, sample weights) of the step in progress; None outside fit and evaluate.
    _scored_against = None
    _token_metrics = ()
    _batch_parts = 1

    def compile(self, optimizer="rmsprop", loss=None, *, metrics=None, batch_parts=1, **options):
        check_positive(batch_parts=batch_parts)
        if metrics is not None and not isinstance(metrics, list | tuple | dict):
            raise ValueError(f"`metrics` must be a list, a tuple or a dict; got {metrics!r}.")
        metrics = list(metrics or []) if not isinstance(metrics, dict) else metrics
        self._by_blocks = (
            self._head is not None
            and isinstance(loss, SequenceCrossentropy)
            and all(isinstance(metric, TokenMetric) for metric in metrics)
            and all(metric.pad_id == loss.pad_id for metric in metrics)
            and options.get("weighted_metrics") is None
            and options.get("loss_weights") is None
        )
        if batch_parts > 1 and not self._by_blocks:
            raise ValueError(
                "`batch_parts` must be 1 unless `loss` is a `SequenceCrossentropy`, all metrics "
                "are of tokens with its `pad_id`, and neither `weighted_metrics` nor "
                f"`loss_weights` is given; got {batch_parts}. Leave it out."
            )
        self._batch_parts = batch_parts
        if not self._by_blocks:
            self._token_metrics = []
            super().compile(optimizer, loss, metrics=metrics or None, **options)
            return
        super().compile(optimizer, loss, metrics=None, **options)
        self._tracker.unlock()  # as Keras leaves it, except after `quantize`
        if batch_parts > 1 and needs_known_rows(self.jit_compile):
            raise ValueError(
                "`batch_parts` must be 1 where XLA compiles the step on TensorFlow, as it computes "
                f"nothing side by side; got {batch_parts}. Pass jit_compile=False."
            )
        # Tracked by Keras as the model's own metrics; the first replaces the loss per batch.
        self._token_metrics = [TokenLoss(pad_id=loss.pad_id, name="loss"), *metrics]
        _ = self._features  # made here, not in the first traced step

    def get_compile_config(self):
        config = super().get_compile_config()
        if config and self._batch_parts > 1:
            config["batch_parts"] = self._batch_parts
        if config and self._token_metrics:
            config["metrics"] = keras.saving.serialize_keras_object(list(self._token_metrics[1:]))
        return config

    def compile_from_config(self, config):
        config = keras.saving.deserialize_keras_object(config)
        self.compile(**config)
        if self.optimizer is not None and self.built:
            self.optimizer.build(self.trainable_variables)

    @functools.cached_property
    def _head(self):
        """The `TokenEmbedding` call that makes the logits: (layer, its input), or None."""
        outputs = self.outputs
        if len(outputs) != 1:
            return None
        layer, node_index, _ = outputs[0]._keras_history
        if not isinstance(layer, TokenEmbedding):
            return None
        if layer.logit_soft_cap is not None or layer.reverse_dtype is not None:
            return None
        arguments = layer._inbound_nodes[node_index].arguments
        return (layer, arguments.args[0]) if arguments.kwargs.get("reverse") else None

    @functools.cached_property
    def _features(self):
        """The model up to the head. In the instance's dict, so that Keras does not track it."""
        return keras.Model(self._inputs_struct, self._head[1])

    @property
    def metrics(self):
        metrics = [metric for metric in super().metrics if not self._is_of_the_past(metric)]
        if self._token_metrics:
            # Keras's own tracker weighs batches by sentences; ours has its name and weighs tokens.
            return [metric for metric in metrics if metric is not self._loss_tracker]
        return metrics

    def _is_of_the_past(self, metric):
        """Whether an earlier `compile` brought the token metric; Keras tracks it for ever."""
        return isinstance(metric, TokenMetric) and all(
            metric is not current for current in self._token_metrics
        )

    def make_train_function(self, force=False):
        quantized = [name for name, mode in quantized_layers(self) if mode in INTEGER_MODES]
        adapted = any(getattr(each, "lora_enabled", False) for each in self._flatten_layers())
        if quantized and not adapted:
            raise ValueError(
                f"A model must not be quantized to be trained; {self.name!r} is: its weights are "
                f"integers, as in layer {quantized[0]!r}. Train it first, then quantize."
            )
        return super().make_train_function(force)

    def load_weights(self, filepath, *arguments, **options):
        """As Keras's, and the optimizer's state too where the model was only just compiled."""
        optimizer = self.optimizer if self.compiled else None
        if optimizer is not None and self.built and not optimizer.built:
            optimizer.build(self.trainable_variables)
        super().load_weights(filepath, *arguments, **options)

    def fit(self, *arguments, **options):
        """As Keras's; on TensorFlow an epoch ends with its last batch (`prompt_pipelines`)."""
        given = inspect.signature(super().fit).bind(*arguments, **options).arguments
        return super().fit(**prompt_pipelines(given))

    def train_step(self, *args):
        with self._scoring(args[-1]):
            results = super().train_step(*args)
        forget_gradients(self)
        return results

    def test_step(self, *args):
        with self._scoring(args[-1]):
            return super().test_step(*args)

    @contextlib.contextmanager
    def _scoring(self, data):
        """Within it, a call of the model returns `ScoredTokens` instead of logits."""
        _, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
        self._scored_against = (labels, weights) if self._by_blocks else None
        try:
            yield
        finally:
            self._scored_against = None

    def call(self, inputs, training=None, mask=None):
        check_input_names(self, inputs)
        if self._scored_against is None:
            return super().call(inputs, training=training, mask=mask)
        if not training or self._batch_parts == 1:
            return self._scored(inputs, *self._scored_against, training, mask)
        batch = (inputs, *self._scored_against, mask)
        penalties = len(self.losses)
        parts = [
            self._scored(*part, training, mask_part)
            for *part, mask_part in split_batch(batch, self._batch_parts)
        ]
        if len(self.losses) > penalties:
            raise ValueError(
                "`batch_parts` must be 1 where a layer adds a loss of what it puts out "
                f"(`add_loss`, `activity_regularizer`), for each part would; got "
                f"{self._batch_parts}. Compile without it."
            )
        tokens = zip(*(part.tokens for part in parts), strict=True)
        tokens = TokenStatistics(*(ops.concatenate(each, axis=0) for each in tokens))
        return ScoredTokens(sum(part.total for part in parts), tokens)

    def _scored(self, inputs, labels, sample_weight, training, mask=None):
        features = self._features.call(inputs, training=training, mask=mask)
        return self._statistics(features, labels, sample_weight, training)

    def _statistics(self, features, labels, sample_weight, training):
        layer = self._head[0]
        labels = target_ids(labels, features, layer.input_dim)
        weights = token_weights(labels, features, sample_weight, self.loss.pad_id)
        if layer.quantization_mode is not None:
            logits = layer(features, reverse=True)
            per_token = token_statistics(logits, labels, self.loss.label_smoothing)
            total = ops.sum(per_token[0] * weights)
            return ScoredTokens(total, TokenStatistics(*per_token, weights))
        shape = ops.shape(labels)
        total, loss, likelihood, correct = head_statistics(
            *layer.head_factors(ops.reshape(features, (-1, features.shape[-1]))),  # (B T, D)
            ops.reshape(labels, (-1,)),
            ops.reshape(weights, (-1,)),
            self.loss.label_smoothing,
            gradient=bool(training),
        )
        per_token = [ops.reshape(value, shape) for value in (loss, likelihood, correct)]
        return ScoredTokens(total, TokenStatistics(*per_token, weights))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if not isinstance(y_pred, ScoredTokens):
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        loss = mean_over_tokens(y_pred.total, y_pred.tokens.weight)
        for penalty in self.losses:
            loss = loss + self._aggregate_additional_loss(penalty)
        return loss

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        if not isinstance(y_pred, ScoredTokens):
            return super().compute_metrics(x, y, y_pred, sample_weight)
        for metric in self._token_metrics:
            metric.update_from(y_pred.tokens)
        return self.get_metrics_result()
