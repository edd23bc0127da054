"""A picture of a training run: loss, perplexity, BLEU and speed by epoch."""

import json
import math
from pathlib import Path

from keras_transformer.visualization.figure import HUES, INK, PALE, finish, new_figure

_PANELS = {
    "loss": "loss (nats a token)",
    "perplexity": "perplexity",
    "bleu": "BLEU",
    "tokens_per_second": "target tokens a second",
}


def plot_history(history, path=None):
    """Draws loss, perplexity, BLEU and tokens per second against epochs, those that there are.

    Args:
        history: path of the `history.jsonl` of a run, one line of JSON an epoch; or a dict of name
            to list with one number an epoch, as `fit` returns in its `history`. Names that begin
            with "val_" are drawn beside the same name without, dashed.
        path: path of the picture, whose ending chooses the format (png, svg, pdf), or None.

    Returns:
        `matplotlib.figure.Figure`

    Raises:
        ValueError: if there is nothing to draw, a line is no JSON, or lists differ in length.
        ImportError: if matplotlib is not installed.

    >>> figure = plot_history({"loss": [6.1, 4.2, 3.9], "val_loss": [5.0, 4.1, 4.0]})
    >>> [axes.get_title(loc="left") for axes in figure.axes]
    ['loss (nats a token)']
    """
    curves = _of_dict(history) if isinstance(history, dict) else _of_file(Path(history))
    panels = {name: [key for key in (name, f"val_{name}") if curves.get(key)] for name in _PANELS}
    panels = {name: keys for name, keys in panels.items() if keys}
    if not panels:
        raise ValueError(
            f"`history` must hold one of {list(_PANELS)} to draw; got {sorted(curves)}."
        )
    across = min(len(panels), 2)
    down = math.ceil(len(panels) / across)
    figure = new_figure(4.4 * across, 2.9 * down)
    places = list(figure.subplots(down, across, squeeze=False).flat)
    epochs = [epoch for keys in panels.values() for key in keys for epoch, _ in curves[key]]
    for index, (name, keys) in enumerate(panels.items()):
        _draw_panel(places[index], _PANELS[name], {key: curves[key] for key in keys}, HUES[index])
        places[index].set_xlim(min(epochs) - 0.4, max(epochs) + 0.4)
    for place in places[len(panels) :]:
        place.set_axis_off()
    return finish(figure, path)


def _of_dict(history):
    """Returns {name: [(epoch, number), ...]}, epochs counted from 1."""
    lengths = {name: len(numbers) for name, numbers in history.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"`history` must have one number an epoch for every name; got {lengths}. Pass the file "
            "that the run wrote, which tells the epochs."
        )
    return {name: list(enumerate(numbers, start=1)) for name, numbers in history.items()}


def _of_file(path):
    if not path.is_file():
        raise ValueError(f"`history` must be a file or a dict; there is no file {path}.")
    curves = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            record = json.loads(line)
            epoch = record.pop("epoch")
        except (json.JSONDecodeError, AttributeError, KeyError) as error:
            raise ValueError(
                f'`history` must have a JSON object with "epoch" on each line; line {number} of '
                f"{path} is {line[:60]!r}."
            ) from error
        for name, value in record.items():
            curves.setdefault(name, []).append((epoch, value))
    return curves


def _draw_panel(axes, title, curves, hue):
    for name, points in curves.items():
        alone_or_training = len(curves) == 1 or not name.startswith("val_")
        axes.plot(
            *zip(*points, strict=True),
            color=hue,
            linestyle="-" if alone_or_training else "--",
            marker="o" if len(points) < 25 else None,
            markersize=3.5,
            label="validation" if name.startswith("val_") else "training",
        )
    if len(curves) > 1:
        axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    axes.set_title(title, color=INK, fontsize=10, loc="left")
    axes.set_xlabel("epoch", color=PALE, fontsize=9)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.tick_params(labelsize=9, colors=PALE)
    axes.grid(axis="y", color="#e8e9ef")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#c9ccd8")
