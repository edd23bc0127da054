"""Rotary positions: the products of queries and keys depend on how far apart they stand."""

import math

import keras

from keras_transformer.arguments import (
    check_above,
    check_above_zero,
    check_positive_or_none,
)
from keras_transformer.layers.position_scheme import PositionScheme
from keras_transformer.ops.rotary import (
    llama3_rates,
    ntk_base,
    rotary_rates,
    rotate_pairs,
    yarn_rates,
)

# Scalings that keep fast pairs, stretch slow ones and ramp between, and the ends of their ramps.
RAMPED = {"yarn": yarn_rates, "llama3": llama3_rates}
_BETAS = {"yarn": (32.0, 1.0), "llama3": (4.0, 1.0)}


@keras.saving.register_keras_serializable(package="keras_transformer")
class RotaryPosition(PositionScheme):
    """Turns each pair of entries of a query or key by an angle proportional to its position.

        (x, y) at position p  ->  (x cos pr - y sin pr, x sin pr + y cos pr),  r_i = base^(-2i/d)

    Angles are float32 whatever the layer's dtype. There are no weights.

    Args:
        base: float above 1; larger bases turn slower and reach further.
        rotary_dim: even int, d, how many of a head's entries turn; all of them by default.
        layout: "interleaved": pairs are entries (2i, 2i+1), as in the paper; "half_split": entries
            (i, d/2 + i), as Llama's and GPT-NeoX's weights in Hugging Face checkpoints have them.
        scaling: how a model trained on short texts is stretched by `factor`: None, "linear"
            (positions / factor), "ntk" (a larger base: fast pairs stay as they were trained),
            "yarn" (slow pairs stretched, fast pairs kept, scores sharpened) or "llama3" (likewise,
            scores as they are: Llama 3.1 and later).
        factor: float >= 1, new length / trained length; with a `scaling` only, which needs it.
        original_length: int, the trained length; "yarn" and "llama3" only, which need it.
        beta_fast, beta_slow: floats, turns in the trained length above which a pair is kept, and
            below which it is stretched whole; "yarn" and "llama3" only, which take 32 and 1, and
            4 and 1, by default.

    Raises:
        ValueError: if an argument is outside its rule, or goes with no such scaling.

    >>> attention = MultiHeadAttention(num_heads=2, key_dim=8, position=RotaryPosition())

    Reference: Su et al. 2021, section 3.2; linear: Chen et al. 2023; YaRN: Peng et al. 2023;
    llama3: Grattafiori et al. 2024, section 3.4.2.
    """

    built_from_axes = (3,)

    def __init__(
        self,
        base=10000.0,
        rotary_dim=None,
        layout="interleaved",
        scaling=None,
        factor=None,
        original_length=None,
        beta_fast=None,
        beta_slow=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_above(1, base=base)
        check_positive_or_none(rotary_dim=rotary_dim, original_length=original_length)
        if rotary_dim is not None and rotary_dim % 2:
            raise ValueError(
                f"`rotary_dim` must be even; got {rotary_dim!r}. Entries turn in pairs: pass 2, 4, "
                "..."
            )
        if layout not in ("interleaved", "half_split"):
            raise ValueError(
                f'`layout` must be "interleaved" or "half_split"; got {layout!r}. Imported weights '
                "say which of the two they were trained with."
            )
        _check_scaling(scaling, factor, original_length)
        betas = _betas(scaling, beta_fast, beta_slow)
        self.base = base
        self.rotary_dim = rotary_dim
        self.layout = layout
        self.scaling = scaling
        self.factor = factor
        self.original_length = original_length
        self.beta_fast, self.beta_slow = betas

    def build(self, heads_shape):
        width = self.rotary_dim or heads_shape[-1]
        if width % 2 or width > heads_shape[-1]:
            raise ValueError(
                f"`rotary_dim` must be even and at most the head width {heads_shape[-1]}; got "
                f"{width}. Pass another one."
            )
        self._rates = self._scaled_rates(width)  # float64 (width / 2,)
        # Peng et al. 2023, section 3.4: both query and key carry the root of the temperature.
        self._magnitude = 0.1 * math.log(self.factor) + 1 if self.scaling == "yarn" else 1.0
        self.built = True

    def _scaled_rates(self, width):
        if self.scaling == "linear":
            return rotary_rates(width, self.base) / self.factor
        if self.scaling == "ntk":
            if width < 4:
                raise ValueError(
                    f'`scaling="ntk"` must turn at least 4 entries; got {width}. Take "linear".'
                )
            return rotary_rates(width, ntk_base(self.base, width, self.factor))
        if self.scaling in RAMPED:
            betas = (self.beta_fast, self.beta_slow)
            rates = RAMPED[self.scaling]
            return rates(width, self.base, self.factor, self.original_length, *betas)
        return rotary_rates(width, self.base)

    def rotate(self, heads, positions):
        interleaved = self.layout == "interleaved"
        return rotate_pairs(heads, positions, self._rates, interleaved, self._magnitude)

    def get_config(self):
        return {
            **super().get_config(),
            "base": self.base,
            "rotary_dim": self.rotary_dim,
            "layout": self.layout,
            "scaling": self.scaling,
            "factor": self.factor,
            "original_length": self.original_length,
            "beta_fast": self.beta_fast,
            "beta_slow": self.beta_slow,
        }


def _check_scaling(scaling, factor, original_length):
    if scaling not in (None, "linear", "ntk", *RAMPED):
        raise ValueError(
            f'`scaling` must be None, "linear", "ntk", "yarn" or "llama3"; got {scaling!r}. Take '
            "None for a model that is used at the length it was trained at."
        )
    if (scaling is None) != (factor is None):
        raise ValueError(
            f"`factor` must be given with a `scaling` and without one left out; got {factor!r} for "
            f"{scaling!r}. It is the new length over the trained one."
        )
    if factor is not None:
        check_above_zero(factor=factor)
        if factor < 1:
            raise ValueError(
                f"`factor` must be at least 1; got {factor!r}. A shorter text needs no scaling."
            )
    if (scaling in RAMPED) != (original_length is not None):
        raise ValueError(
            '`original_length` must be given with `scaling="yarn"` or "llama3" and with no other; '
            f"got {original_length!r} for {scaling!r}. It is the length the model was trained at."
        )


def _betas(scaling, beta_fast, beta_slow):
    """Returns the ends of the ramp, those of the scaling's paper by default; None without one."""
    if scaling not in RAMPED:
        if (beta_fast, beta_slow) != (None, None):
            raise ValueError(
                "`beta_fast` and `beta_slow` must be left out unless `scaling` is one of "
                f"{tuple(RAMPED)}; got {beta_fast!r} and {beta_slow!r}. Remove them."
            )
        return None, None
    usual_fast, usual_slow = _BETAS[scaling]
    beta_fast = usual_fast if beta_fast is None else beta_fast
    beta_slow = usual_slow if beta_slow is None else beta_slow
    check_above_zero(beta_fast=beta_fast, beta_slow=beta_slow)
    if not beta_fast > beta_slow:
        raise ValueError(
            f"`beta_fast` must be above `beta_slow`; got {beta_fast!r} and {beta_slow!r}. "
            f"{scaling!r} takes {usual_fast} and {usual_slow}."
        )
    return beta_fast, beta_slow
