"""Models made of arguments that stay frozen through save and load."""

KEY = "frozen"


class FrozenRecord:
    """Put before `Model` in a class that makes its layers of its arguments: keeps which train.

    Keras saves `trainable` with each layer's config, but the config of such a model holds no
    layers. A compiled one makes its optimizer's state for the variables that train as soon as it is
    made of its config, so that the config has to tell.
    """

    def frozen_config(self):
        """Returns what `get_config` adds: {"frozen": paths}, or nothing where all layers train."""
        paths = _frozen_paths(self)
        return {KEY: paths} if paths else {}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        paths = config.pop(KEY, [])
        model = super().from_config(config, custom_objects)
        for path in paths:
            _layer_at(model, path).trainable = False
        return model


def _frozen_paths(layer):
    """Returns the paths of the outermost frozen layers, "" for the layer itself.

    A model within that keeps its own is left out, and so are layers without weights, whose names
    may be counted.
    """
    if not layer.trainable:
        return [""]
    return [
        f"{child.name}/{path}".rstrip("/")
        for child in layer._layers
        if child.weights and not isinstance(child, FrozenRecord)
        for path in _frozen_paths(child)
    ]


def _layer_at(layer, path):
    for name in path.split("/") if path else []:
        layer = next(child for child in layer._layers if child.name == name)
    return layer
