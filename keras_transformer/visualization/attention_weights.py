"""Attention weights of a model as arrays."""

import numpy as np
from keras import ops

from keras_transformer.models.attention_weights import AttentionWeights


def attention_weights(model, source_ids, target_ids):
    """Reads sources and targets with a model and returns what every head of every block looks at.

    Args:
        model: a model with the method `attention_weights`, such as `models.Transformer`.
        source_ids: int (B, S), each row with its end.
        target_ids: int (B, T), each row begins with the model's `start_id`. Row t of the weights is
            the step that reads target token t and picks the next one.

    Returns:
        `models.AttentionWeights` of float32 arrays: encoder (L, B, N, S, S), decoder
        (L, B, N, T, T) and cross (L, B, N, T, S), L the blocks and N the heads.

    Raises:
        ValueError: if the model has no such method, or the ids are not two axes with B in common.

    >>> model = keras_transformer.models.Transformer(vocabulary_size=11, num_layers=2, model_dim=8,
    ...     num_heads=2, intermediate_dim=16)
    >>> attention_weights(model, [[5, 7, 3]], [[2, 6, 9, 4]]).cross.shape
    (2, 1, 2, 4, 3)
    """
    if not hasattr(model, "attention_weights"):
        raise ValueError(
            "`model` must have the method `attention_weights`; got "
            f"{type(model).__name__}. Pass a `models.Transformer`."
        )
    source_ids, target_ids = _rows("source_ids", source_ids), _rows("target_ids", target_ids)
    if len(source_ids) != len(target_ids):
        raise ValueError(
            "`source_ids` and `target_ids` must have as many rows; got "
            f"{len(source_ids)} and {len(target_ids)}."
        )
    weights = model.attention_weights(source_ids, target_ids)
    return AttentionWeights(*(_stacked(blocks) for blocks in weights))


def _rows(name, ids):
    ids = np.asarray(ids)
    if ids.ndim != 2 or ids.dtype.kind not in "iu" or not ids.size:
        raise ValueError(
            f"`{name}` must be integer ids of shape (batch, length); got shape {ids.shape} and "
            f"dtype {ids.dtype}. Pass [ids] for one sentence."
        )
    return ids.astype("int32")


def _stacked(blocks):
    return np.stack([ops.convert_to_numpy(ops.cast(weights, "float32")) for weights in blocks])
