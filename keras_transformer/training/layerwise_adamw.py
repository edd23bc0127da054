"""AdamW with a learning rate for each layer."""

import keras

from keras_transformer.training.adam import Adam


@keras.saving.register_keras_serializable(package="keras_transformer")
class LayerwiseAdamW(Adam):
    """`Adam` with weight decay, its learning rate multiplied by a factor for each layer.

        w <- w - rate(layer of w) learning_rate (adam(w) + weight_decay w)

    Args:
        learning_rate: float or schedule.
        rates: dict of layer's name to factor, as `models.layer_rates` returns it; the layer's
            weights are those with its name in their path. Others have the factor 1.
        weight_decay, **options: as `keras.optimizers.AdamW`; a weight decay of 0 makes it Adam.

    Raises:
        ValueError: if a factor is negative, or a name is not that of a layer that trains.

    >>> rates = {"embedding": 0.25, "encoder_block_0": 0.5}
    >>> optimizer = LayerwiseAdamW(2e-5, rates, weight_decay=0.01)

    Reference: Howard and Ruder 2018, section 3.2; Loshchilov and Hutter 2019.
    """

    def __init__(self, learning_rate=0.001, rates=None, weight_decay=0.004, **options):
        super().__init__(learning_rate, weight_decay=weight_decay, **options)
        for name, factor in (rates or {}).items():
            if not factor >= 0:
                raise ValueError(
                    f"`rates` must be numbers from 0; got {factor!r} for {name!r}. With 0 a layer "
                    "stays as it is."
                )
        self.rates = dict(rates or {})

    def build(self, variables):
        known = {part for variable in variables for part in variable.path.split("/")}
        unknown = sorted(set(self.rates) - known)
        if unknown:
            raise ValueError(
                f"`rates` must name layers that train; got {unknown}. Take "
                "`models.layer_rates(model, decay)`, after layers were frozen."
            )
        super().build(variables)

    def _factor(self, variable):
        for part in variable.path.split("/"):
            if part in self.rates:
                return self.rates[part]
        return 1.0

    def _by_factor(self, variables):
        """Returns {factor: places of the variables that have it}."""
        groups = {}
        for place, variable in enumerate(variables):
            groups.setdefault(self._factor(variable), []).append(place)
        return groups

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        for factor, places in self._by_factor(trainable_variables).items():
            super()._backend_update_step(
                [grads[place] for place in places],
                [trainable_variables[place] for place in places],
                learning_rate * factor,
            )

    def _apply_weight_decay(self, variables):
        if not self.weight_decay:
            return
        whole = self.weight_decay
        variables = [each for each in variables if self._use_weight_decay(each)]
        for factor, places in self._by_factor(variables).items():
            # Keras multiplies it by the learning rate, in each backend's own way.
            self.weight_decay = whole * factor
            super()._apply_weight_decay([variables[place] for place in places])
        self.weight_decay = whole

    def get_config(self):
        return {**super().get_config(), "rates": self.rates}
