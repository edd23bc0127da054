"""What the pictures have in common: matplotlib without its global state, and one look."""

INK, PALE = "#1f2540", "#8b90a5"
HUES = ("#3b4cc0", "#d1495b", "#2a9d8f", "#e09f3e")
SHADES = ("#f3f5fb", "#a9bdea", "#3b4cc0", "#1a1f5c")  # of a weight, from 0 to 1


def new_figure(width, height):
    """Returns a `matplotlib.figure.Figure` of that size in inches.

    Raises:
        ImportError: if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "pictures need matplotlib: pip install keras-transformer-layers[pictures]"
        ) from error
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def finish(figure, path, dpi=150):
    """Writes the figure to `path`, whose ending chooses the format, unless it is None."""
    if path is not None:
        figure.savefig(path, dpi=dpi)
    return figure
