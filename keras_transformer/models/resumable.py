"""Models made of arguments that go on after they were loaded as if they had never been saved."""

import contextlib

import keras
from keras import ops
from keras.src.utils.naming import auto_name

TRAINABLE_KEY = "trainable_layers"
SEED_KEY = "seed_generator_"


class Resumable:
    """Put before `Model` in a class that makes its layers of its arguments.

    Keeps which layers train. Keras saves that with each layer's config, but the config of such a
    model holds no layers; and one that is compiled makes its optimizer's state for the variables
    that train as soon as it is made of its config, so that the config has to tell.

    Keeps the state of the dropout, which Keras leaves out.
    """

    def trainable_config(self):
        """Returns what `get_config` adds: {"trainable_layers": {path: flag}}, or {} if all train.

        A path is of names, "" for the model. Named are the layers whose flag is not that of the
        layer around them, from without to within.
        """
        flags = dict(_flags(self, True))
        return {TRAINABLE_KEY: flags} if flags else {}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        flags = config.pop(TRAINABLE_KEY, {})
        model = super().from_config(config, custom_objects)
        for path, flag in flags.items():
            _layer_at(model, path).trainable = flag
        return model

    def save_own_variables(self, store):
        super().save_own_variables(store)
        for index, generator in enumerate(self._dropout_generators()):
            store[f"{SEED_KEY}{index}"] = ops.convert_to_numpy(generator.state)

    def load_own_variables(self, store):
        own = {key: store[key] for key in store.keys()}
        states = [own.pop(key) for key in sorted(own, key=_seed_index) if _seed_index(key) >= 0]
        super().load_own_variables(own)
        generators = self._dropout_generators()
        # Weights of a model with other dropout layers load as well, without its state.
        if len(states) == len(generators):
            for generator, state in zip(generators, states, strict=True):
                generator.state.assign(state)

    def _dropout_generators(self):
        return [
            generator for layer in self._flatten_layers() for generator in layer._seed_generators
        ]


@contextlib.contextmanager
def paths_under(model, name):
    """Yields a model's name, by default one made of its class, for layers that are built within.

    Their variables then have it in their paths. Torch knows those of a model by path: of two
    models in a third one it would else see one.
    """
    name = name or auto_name(type(model).__name__)
    with keras.name_scope(name):
        yield name


def _flags(layer, around, path=""):
    """Yields (path, flag) of the layers whose flag is not that of the layer around them.

    A model within that keeps its own is left out, and so are layers without weights, whose names
    may be counted.
    """
    if layer.trainable != around:
        yield path, layer.trainable
    for child in layer._layers:
        if child.weights and not isinstance(child, Resumable):
            yield from _flags(child, layer.trainable, f"{path}/{child.name}".lstrip("/"))


def _layer_at(layer, path):
    for name in path.split("/") if path else []:
        layer = next(child for child in layer._layers if child.name == name)
    return layer


def _seed_index(key):
    return int(key.removeprefix(SEED_KEY)) if key.startswith(SEED_KEY) else -1
