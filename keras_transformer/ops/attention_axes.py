"""Masks, biases and positions, brought from the axes callers use to those attention uses."""

from keras import ops


def both_masks(mask, other):
    """Returns bool: True where both masks are, a mask that is None being True everywhere."""
    masks = [ops.cast(each, "bool") for each in (mask, other) if each is not None]
    if len(masks) == 2:
        return ops.logical_and(*masks)
    return masks[0] if masks else None


def two_axes(positions):
    """Returns int32 (B|1, T) from (T,) or (B, T)."""
    if positions is None:
        return None
    positions = ops.cast(positions, "int32")
    return ops.expand_dims(positions, 0) if len(positions.shape) == 1 else positions


def mask_axes(mask):
    """Returns bool (B|1, N|1, T, S) from (T, S), (B, T, S) or (B, N, T, S), as Keras reads them."""
    if mask is None:
        return None
    mask = ops.cast(mask, "bool")
    return mask[:, None] if len(mask.shape) == 3 else four_axes(mask)


def four_axes(tensor):
    """Returns (B|1, N|1, T, S) by adding axes in front."""
    if tensor is None:
        return None
    tensor = ops.convert_to_tensor(tensor)
    rank = len(tensor.shape)
    return ops.expand_dims(tensor, list(range(4 - rank))) if rank < 4 else tensor
