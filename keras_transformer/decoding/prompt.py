"""The tokens that a search starts from."""

from keras import ops

# Prompts are read in chunks whose width is a multiple of this, and sources padded to one.
WIDTH_MULTIPLE = 8


def read_prompt(model, source, prompt, prompt_length, max_length):
    """Reads all of the prompt but its last token, which the first step of the search reads.

    Args:
        model: the model, see `Search`.
        source: nested tensors, (B, ...).
        prompt: int32 (B, P), P known when the function is traced.
        prompt_length: int32 scalar, or None for P. With it P is 1 or a multiple of
            `WIDTH_MULTIPLE`, and the tokens from `prompt_length` on, fewer than
            `WIDTH_MULTIPLE`, are no part of the prompt: one trace serves several lengths.
        max_length: int or int32 scalar, how many tokens the search may add.

    Returns:
        The last token (B,) and the model's `DecodingState` with B rows.
    """
    width = prompt.shape[1]
    length = width + max_length - 1
    longest = getattr(model, "max_target_length", None)
    if prompt_length is not None and longest is not None:
        # `Search` has checked the prompt's own length; what fills up its width is never read.
        length = min(length, longest)
    state = model.start(source, length)
    state = state._replace(index=ops.cast(state.index, "int32"))
    if width == 1:
        return prompt[:, 0], state
    if prompt_length is None:
        _, state = model.step(prompt[:, :-1], state)
        return prompt[:, -1], state
    if width > WIDTH_MULTIPLE:
        _, state = model.step(prompt[:, :-WIDTH_MULTIPLE], state)

    def unread(cache, index):
        return index < prompt_length - 1

    def read(cache, index):
        tokens = ops.take(prompt, ops.reshape(index, (1,)), axis=1)
        _, after = model.step(tokens, state._replace(cache=cache, index=index))
        return after.cache, after.index

    cache, index = ops.while_loop(unread, read, (state.cache, state.index))
    last = ops.take(prompt, prompt_length - 1, axis=1)
    return last, state._replace(cache=cache, index=index)
