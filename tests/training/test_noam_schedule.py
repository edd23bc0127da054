"""The paper's learning rate, and case 45's first half: a config and finite rates."""

import keras
import numpy as np
import pytest

from keras_transformer.training import NoamSchedule


def test_numbers_of_the_base_model():
    schedule = NoamSchedule(512)
    for step in (1, 2, 3999, 4000, 4001, 100_000):
        wanted = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        np.testing.assert_allclose(float(schedule(step - 1)), wanted, rtol=1e-5)


def test_highest_at_the_end_of_the_warm_up():
    schedule = NoamSchedule.with_peak(4e-3, model_dim=128, warmup_steps=7)
    rates = [float(schedule(step)) for step in range(20)]
    assert np.argmax(rates) == 6
    np.testing.assert_allclose(max(rates), 4e-3, rtol=1e-5)
    assert 0 < rates[0] < rates[1]


def test_config_round_trip():
    schedule = NoamSchedule(64, 11, factor=0.5)
    config = keras.saving.serialize_keras_object(schedule)
    assert keras.saving.deserialize_keras_object(config).get_config() == schedule.get_config()


@pytest.mark.parametrize("name, value", [("model_dim", 0), ("warmup_steps", 2.5), ("factor", 0)])
def test_wrong_arguments(name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be"):
        NoamSchedule(**{"model_dim": 8, name: value})
