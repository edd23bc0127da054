"""Layers made of layers that were frozen before they were built."""


def freeze_what_was_built(layer):
    """Freezes the layers that a frozen layer has just made in `build`.

    A frozen layer of a saved model is made of its config, which tells of its own flag only, and a
    model's trainable variables are those whose own layers train.
    """
    if not layer.trainable:
        for child in layer._layers:
            child.trainable = False
