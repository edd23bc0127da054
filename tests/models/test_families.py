"""Every preset has as many parameters as the original; nothing is allocated to count them."""

import math

import keras
import pytest
from keras.src.backend.common.global_state import set_global_attribute

from keras_transformer.models import (
    CausalLanguageModel,
    Transformer,
    TransformerEncoder,
    VisionTransformer,
)
from keras_transformer.models.families import (
    CAUSAL_PRESETS,
    ENCODER_PRESETS,
    SEQUENCE_PRESETS,
    VISION_PRESETS,
)

pytestmark = pytest.mark.any_backend
PRESETS = {
    (model, name): preset
    for model, presets in (
        (CausalLanguageModel, CAUSAL_PRESETS),
        (TransformerEncoder, ENCODER_PRESETS),
        (Transformer, SEQUENCE_PRESETS),
        (VisionTransformer, VISION_PRESETS),
    )
    for name, preset in presets.items()
}


def count_parameters(model, arguments):
    """Counts without values: blocks are alike, so one and two of them tell the cost of each.

    What is drawn and not trained, as the Performer's features, is a constant.
    """
    num_layers = arguments.get("num_layers", 6)
    with keras.StatelessScope(initialize_variables=False):
        models = [model(**{**arguments, "num_layers": n}) for n in (1, 2)]
        one, two = (
            sum(math.prod(variable.shape) for variable in each.trainable_variables)
            for each in models
        )
    set_global_attribute("uninitialized_variables", [])
    return one + (num_layers - 1) * (two - one)


@pytest.mark.parametrize("model, name", PRESETS)
def test_parameters_are_as_many_as_published(model, name):
    preset = PRESETS[model, name]
    assert count_parameters(model, preset.arguments) == preset.parameters


def test_the_transformer_knows_both_the_papers_rows_and_the_families():
    small = {"num_layers": 1, "model_dim": 16, "num_heads": 2, "intermediate_dim": 24}
    model = Transformer.from_preset("t5-v1.1-small", vocabulary_size=31, **small)
    assert model.vocabulary_size == 31 and not model.tie_weights
    assert Transformer.from_preset("base", vocabulary_size=31, **small).tie_weights
    with pytest.raises(ValueError, match="`vocabulary_size`"):
        Transformer.from_preset("base")
    with pytest.raises(ValueError, match="t5-small"):
        Transformer.from_preset("t6")
