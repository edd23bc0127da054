"""A picture of the attention between the pieces of a sentence and of its translation."""

import math

from keras_transformer.visualization.attention_weights import attention_weights
from keras_transformer.visualization.figure import INK, PALE, SHADES, finish, new_figure

_KINDS = {
    "cross": "each piece of the translation (rows) looks at the sentence",
    "encoder": "each piece of the sentence (rows) looks at the sentence",
    "decoder": "each piece of the translation (rows) looks at those before it",
}
_CELL = 0.36  # inches


def plot_attention(
    translator, sentence, translation=None, block=-1, head="mean", path=None, *, kind="cross"
):
    """Draws what the heads of one block look at while a sentence is translated.

    A row is a piece, a column what it can look at, and a cell the darker the more of the row's
    attention it gets. The row of a translated piece is the step that picks it. A piece that begins
    with "-" goes on with the word before it.

    Args:
        translator: `Translator` over a model with `attention_weights`, as `models.Transformer`.
        sentence: str.
        translation: str; the translator's own by default.
        block: int, which block, counted from 0, or from -1 backwards.
        head: "mean" of the block's heads, the number of one, or "all" for a panel each.
        path: path of the picture, whose ending chooses the format (png, svg, pdf), or None.
        kind: "cross" (translation to sentence), "encoder" (sentence to itself) or "decoder"
            (translation to itself).

    Returns:
        `matplotlib.figure.Figure`

    Raises:
        ValueError: if the model has no such block or head, or the sentence no pieces.
        ImportError: if matplotlib is not installed.

    Example:

    ```python
    plot_attention(translator, "A man is playing the guitar.", path="attention.png")
    plot_attention(translator, "A man is playing the guitar.", block=0, head="all", kind="encoder")
    ```
    """
    if kind not in _KINDS:
        raise ValueError(f"`kind` must be one of {sorted(_KINDS)}; got {kind!r}.")
    if translation is None:
        (translation,) = translator.translate([sentence])
    tokenizer = translator.tokenizer
    source = [*_pieces(tokenizer, "sentence", sentence), tokenizer.end_id]
    picked = [*_pieces(tokenizer, "translation", translation), tokenizer.end_id]
    read = [tokenizer.start_id, *picked[:-1]]
    weights = attention_weights(translator.model, [source], [read])
    blocks = getattr(weights, kind)[:, 0]  # (L, N, rows, columns)
    _check_block(block, len(blocks))
    panels = _panels(blocks[block], head)
    rows = piece_labels(tokenizer, source if kind == "encoder" else picked)
    columns = piece_labels(tokenizer, {"decoder": read}.get(kind, source))
    number = range(len(blocks))[block] + 1
    title = f"Block {number} of {len(blocks)}: {_KINDS[kind]}"
    return finish(_draw(panels, rows, columns, title), path)


def piece_labels(tokenizer, ids):
    """Returns how each piece is written on an axis."""
    special = {tokenizer.start_id: "[start]", tokenizer.end_id: "[end]"}
    return [special.get(token) or _label(tokenizer, token) for token in ids]


def _label(tokenizer, token):
    if not hasattr(tokenizer, "id_to_piece"):
        return tokenizer.detokenize([token])
    piece = tokenizer.id_to_piece(token)
    if piece.startswith("\u2581"):  # SentencePiece's mark of a word's beginning
        return piece[1:] or "\u2423"
    return f"-{piece}" if piece[:1].isalpha() else piece


def _pieces(tokenizer, name, text):
    ids = tokenizer.tokenize(text)
    if not ids:
        raise ValueError(f"`{name}` must have a piece to look at; got {text!r}.")
    return ids


def _check_block(block, count):
    if not isinstance(block, int) or not -count <= block < count:
        raise ValueError(f"`block` must be in [{-count}, {count}); got {block!r}.")


def _panels(heads, head):
    """Returns {title: matrix (rows, columns)} of one block's heads (N, rows, columns)."""
    if head == "mean":
        return {f"mean of {len(heads)} heads": heads.mean(axis=0)}
    if head == "all":
        return {f"head {number}": matrix for number, matrix in enumerate(heads)}
    if isinstance(head, int) and 0 <= head < len(heads):
        return {f"head {head}": heads[head]}
    raise ValueError(
        f'`head` must be "mean", "all" or a number in [0, {len(heads)}); got {head!r}.'
    )


def _draw(panels, rows, columns, title):
    across = min(len(panels), 4 if len(columns) < 8 else 2)
    down = math.ceil(len(panels) / across)
    margins = 0.09 * max(map(len, rows)) + 0.5, 0.09 * max(map(len, columns)) + 0.7
    figure = new_figure(
        max(across * (_CELL * len(columns) + margins[0]), 0.075 * len(title)),
        down * (_CELL * len(rows) + margins[1]) + 0.1,
    )
    axes = figure.subplots(down, across, squeeze=False).flat
    for place, (name, matrix) in zip(axes, panels.items(), strict=False):
        _draw_panel(place, matrix, rows, columns, name)
    for place in list(axes)[len(panels) :]:
        place.set_axis_off()
    figure.suptitle(title, color=INK, fontsize=11)
    return figure


def _draw_panel(axes, matrix, rows, columns, name):
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("weights", SHADES)
    axes.pcolormesh(matrix, cmap=shades, vmin=0, vmax=1, edgecolors="white", linewidth=1.2)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.xaxis.tick_top()
    axes.set_xticks([place + 0.5 for place in range(len(columns))], columns, rotation=55)
    for label in axes.get_xticklabels():
        label.set(horizontalalignment="left", rotation_mode="anchor")
    axes.set_yticks([place + 0.5 for place in range(len(rows))], rows)
    axes.tick_params(length=0, labelsize=10, labelcolor=INK)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(name, color=PALE, fontsize=9)
