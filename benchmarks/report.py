"""Results as a table to read, JSON lines to keep, and plots."""

import datetime
import importlib.metadata
import json
import os
import platform
import re
from pathlib import Path

_BUSY_CORES = 0.1
_PACKAGES = (
    "keras",
    "tensorflow",
    "jax",
    "torch",
    "keras-hub",
    "transformers",
    "joeynmt",
    "ctranslate2",
)


def table(headers, rows):
    """Returns a Markdown table; the first column is on the left, the others on the right.

    >>> print(table(["name", "ms"], [["a", 1], ["bc", 23]]))
    | name | ms |
    |:-----|---:|
    | a    |  1 |
    | bc   | 23 |
    """
    cells = [[str(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]

    def line(row):
        numbers = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        return f"| {' | '.join([row[0].ljust(widths[0]), *numbers])} |"

    rule = [":" + "-" * (widths[0] + 1), *("-" * (width + 1) + ":" for width in widths[1:])]
    return "\n".join([line(cells[0]), f"|{'|'.join(rule)}|", *map(line, cells[1:])])


def number(value):
    """Returns a number with three digits that count: 1,234, 12.3, 1.23."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def gigabytes(count):
    """Returns bytes in GB (10^9), or "-" where the count is 0, not known."""
    return f"{count / 1e9:.2f}" if count else "-"


def notes(results, failures):
    """Returns the lines under a table: who is not in it and why, and whether the machine was busy.

    Args:
        results: list of `rounds.Result`. failures: dict of errors.
    """
    lines = [f"Left out: {name}: {error}" for name, error in failures.items()]
    busy = max((result.busy_cores for result in results), default=0.0)
    if busy > _BUSY_CORES:
        lines.append(
            f"Warning: other processes kept up to {busy:.1f} of {os.cpu_count()} cores busy; take "
            "the figures on a quiet machine."
        )
    return "\n".join(lines)


def machine():
    """Returns what the figures depend on beside the code: machine, versions, date."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
        **{name: version for name in _PACKAGES if (version := _version(name))},
    }


def append_lines(path, records):
    """Adds records to a file of JSON lines, each with `machine()`; without a path does nothing."""
    if path is None:
        return
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    here = machine()
    with open(path, "a", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps({**record, "machine": here}) + "\n")


def bar_chart(path, title, label, values, spreads):
    """Draws a bar for each name, longest first, with the rounds' spread; nothing without a path.

    Args:
        path: of the picture, whose ending says its kind.
        title, label: str, of the picture and of the axis.
        values: {name: median}. spreads: {name: (least, greatest)}.
    """
    if path is None:
        return
    pyplot = _pyplot()
    names = sorted(values, key=values.get)
    figure, axes = pyplot.subplots(figsize=(8, 0.4 * len(names) + 1.4), layout="constrained")
    errors = [
        [values[name] - spreads[name][0] for name in names],
        [spreads[name][1] - values[name] for name in names],
    ]
    colors = ["tab:blue" if name.startswith("ours") else "tab:gray" for name in names]
    axes.barh(names, [values[name] for name in names], xerr=errors, color=colors)
    axes.set(title=title, xlabel=label)
    _save(figure, path)


def rate_chart(path, title, unit, amount, results):
    """Draws how much each contender does in a second, see `bar_chart`.

    Args:
        unit: str, what is done. amount: how much of it a repeat does.
        results: {name: `rounds.Result`}.
    """
    bar_chart(
        path,
        title,
        f"{unit} per second (bars: median; lines: all rounds)",
        {name: amount / result.median_seconds for name, result in results.items()},
        {
            name: (amount / max(result.seconds), amount / min(result.seconds))
            for name, result in results.items()
        },
    )


def line_chart(path, title, labels, lines, logarithmic=False, doubling=True):
    """Draws one line a name; nothing without a path.

    Args:
        path: of the picture. title: str. labels: what is on the axes, across and up.
        lines: {name: {x: y}}. logarithmic: whether the axis up is logarithmic.
        doubling: whether the axis across is, with a tick at each x.
    """
    if path is None:
        return
    figure, axes = _pyplot().subplots(figsize=(7, 4.5), layout="constrained")
    for name, points in lines.items():
        axes.plot(*zip(*points.items(), strict=True), "o-", label=name)
    axes.set(title=title, xlabel=labels[0], ylabel=labels[1])
    if doubling:
        ticks = sorted({x for points in lines.values() for x in points})
        axes.set_xscale("log")
        axes.set_xticks(ticks, map(str, ticks), minor=False)
        axes.set_xticks([], minor=True)
    if logarithmic:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    _save(figure, path)


def curves(path, title, panels, columns):
    """Draws measured curves beside their formulas; nothing without a path.

    Args:
        path: of the picture.
        title: str.
        panels: list of (x label, y label, x values, measured, {formula's name: values}).
        columns: int, panels in a row.
    """
    if path is None:
        return
    pyplot = _pyplot()
    rows = -(-len(panels) // columns)
    figure, grid = pyplot.subplots(
        rows, columns, figsize=(3.2 * columns, 3 * rows), layout="constrained", squeeze=False
    )
    for axes, (x_label, y_label, x, measured, formulas) in zip(grid.flat, panels, strict=False):
        axes.plot(x, measured, "o-", label="measured")
        for name, values in formulas.items():
            axes.plot(x, values, "--", label=name)
        # Proportional growth is a straight line; what grows little is seen better from zero.
        wide = max(measured) > 4 * min(measured)
        axes.set(xlabel=x_label, ylabel=y_label, xscale="log", yscale="log" if wide else "linear")
        if not wide:
            axes.set_ylim(bottom=0)
        axes.set_xticks(x, [f"{value:,}" for value in x], fontsize="small")
        axes.minorticks_off()
        if wide:
            axes.yaxis.set_major_locator(pyplot.matplotlib.ticker.LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:,g}")
        axes.legend(fontsize="small")
    figure.suptitle(title)
    _save(figure, path)


def _pyplot():
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib: pip install keras-transformer-layers[pictures]"
        ) from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _save(figure, path):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _processor():
    information = Path("/proc/cpuinfo")
    if information.exists():
        found = re.search(r"model name\s*:\s*(.+)", information.read_text())
        if found:
            return found.group(1).strip()
    return platform.processor()


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
