import math

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.rotary_position import RotaryPosition
from keras_transformer.ops.rotary import ntk_base, rotary_rates, yarn_rates


def rotated(heads, positions, **arguments):
    position = RotaryPosition(**arguments)
    position.build(heads.shape)
    return ops.convert_to_numpy(position.rotate(ops.convert_to_tensor(heads), np.array(positions)))


def test_turns_each_pair_by_its_angle():
    heads = np.array([1.0, 0.0, 0.0, 1.0], "float32").reshape(1, 1, 1, 4)
    angles = (3.0, 3.0 * 100.0**-0.5)
    right = [math.cos(angles[0]), math.sin(angles[0]), -math.sin(angles[1]), math.cos(angles[1])]
    np.testing.assert_allclose(rotated(heads, [[3]], base=100.0)[0, 0, 0], right, atol=1e-6)
    halves = rotated(heads[..., [0, 2, 1, 3]], [[3]], base=100.0, layout="half_split")
    np.testing.assert_allclose(halves[0, 0, 0], np.array(right)[[0, 2, 1, 3]], atol=1e-6)


def test_partial_rotation_leaves_the_rest():
    heads = np.random.default_rng(0).normal(size=(2, 3, 5, 7)).astype("float32")
    turned = rotated(heads, [[0, 1, 2]], rotary_dim=4)
    np.testing.assert_array_equal(turned[..., 4:], heads[..., 4:])
    np.testing.assert_array_equal(turned[:, 0], heads[:, 0])
    assert np.abs(turned[:, 1:, :, :4] - heads[:, 1:, :, :4]).min(axis=(0, 1, 2)).max() > 1e-3


def test_products_depend_on_the_distance_only():
    query, key = np.random.default_rng(0).normal(size=(2, 1, 1, 1, 8)).astype("float32")
    products = [
        np.sum(rotated(query, [[start + 4]]) * rotated(key, [[start]])) for start in (0, 3, 700)
    ]
    np.testing.assert_allclose(products, products[0], rtol=1e-4)


def test_positions_are_exact_in_half_precision():
    heads = np.ones((1, 2, 1, 2), "float32")
    exact = rotated(heads, [[256, 257]])
    half = rotated(ops.cast(heads, "bfloat16"), [[256, 257]], dtype="bfloat16")
    np.testing.assert_allclose(half.astype("float32"), exact, atol=8e-3)


@pytest.mark.any_backend
def test_scalings_by_hand():
    np.testing.assert_allclose(rotary_rates(4, 100.0), [1.0, 0.1])
    # NTK: the slowest pair is stretched by exactly the factor.
    stretched = rotary_rates(8, ntk_base(10000.0, 8, 4.0))
    np.testing.assert_allclose(stretched[[0, -1]], rotary_rates(8)[[0, -1]] / [1, 4])
    yarn = yarn_rates(64, 10000.0, 4.0, 2048, 32, 1)
    plain = rotary_rates(64)
    turns = 2048 * plain / (2 * math.pi)
    np.testing.assert_allclose(yarn[turns > 40], plain[turns > 40])
    np.testing.assert_allclose(yarn[turns < 0.9], plain[turns < 0.9] / 4)


@pytest.mark.any_backend
@pytest.mark.parametrize("scaling", ["linear", "yarn", "llama3"])
def test_scalings_match_the_reference(scaling):
    transformers = pytest.importorskip("transformers")
    rope = pytest.importorskip("transformers.modeling_rope_utils")
    ends = {"high_freq_factor": 4.0, "low_freq_factor": 1.5} if scaling == "llama3" else {}
    config = transformers.LlamaConfig(
        hidden_size=64,
        num_attention_heads=2,
        max_position_embeddings=128,
        rope_theta=5000.0,
        rope_scaling={
            "rope_type": scaling,
            "factor": 4.0,
            "original_max_position_embeddings": 128,
            "rope_theta": 5000.0,
            **ends,
        },
    )
    rates, magnitude = rope.ROPE_INIT_FUNCTIONS[scaling](config, "cpu")
    extra = {
        "linear": {},
        "yarn": {"original_length": 128},
        "llama3": {"original_length": 128, "beta_fast": 4.0, "beta_slow": 1.5},
    }[scaling]
    position = RotaryPosition(base=5000.0, scaling=scaling, factor=4.0, **extra)
    position.build((1, 1, 2, 32))
    np.testing.assert_allclose(position._rates, rates.numpy(), rtol=1e-5)
    np.testing.assert_allclose(position._magnitude, magnitude, rtol=1e-6)


def test_config_round_trip():
    position = RotaryPosition(
        base=500.0,
        rotary_dim=4,
        layout="half_split",
        scaling="yarn",
        factor=2.0,
        original_length=64,
    )
    layer = MultiHeadAttention(2, 8, position=position)
    again = MultiHeadAttention.from_config(layer.get_config())
    assert again.position.get_config() == position.get_config()


@pytest.mark.parametrize(
    "arguments, name",
    [
        ({"base": 1}, "base"),
        ({"rotary_dim": 3}, "rotary_dim"),
        ({"layout": "halves"}, "layout"),
        ({"scaling": "cubic"}, "scaling"),
        ({"factor": 2.0}, "factor"),
        ({"scaling": "linear", "factor": 0.5}, "factor"),
        ({"scaling": "yarn", "factor": 2.0}, "original_length"),
        ({"original_length": 5}, "original_length"),
        ({"beta_fast": 5.0}, "beta_fast"),
    ],
)
def test_wrong_arguments(arguments, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        RotaryPosition(**arguments)


def test_a_head_too_narrow_is_refused():
    with pytest.raises(ValueError, match="`rotary_dim`"):
        RotaryPosition(rotary_dim=8).build((1, 1, 2, 4))
    with pytest.raises(ValueError, match="`rotary_dim`"):
        RotaryPosition().build((1, 1, 2, 5))


def test_attention_is_blind_to_a_shift_of_all_positions():
    layer = MultiHeadAttention(2, 8, position=RotaryPosition())
    inputs = keras.random.normal((1, 5, 16), seed=1)
    here = layer(inputs, inputs)
    there = layer(
        inputs, inputs, query_positions=np.arange(40, 45), key_positions=np.arange(40, 45)
    )
    np.testing.assert_allclose(ops.convert_to_numpy(here), ops.convert_to_numpy(there), atol=1e-5)
