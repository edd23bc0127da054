"""Checkpoints of a run and their average: case 47."""

import keras
import numpy as np
import pytest

from keras_transformer.training import LastCheckpoints, average_checkpoints, checkpoint_paths


def small_model():
    inputs = keras.Input((3,))
    return keras.Model(inputs, keras.layers.Dense(2)(inputs))


def test_case_47_the_average_of_constant_updates(tmp_path):
    model = small_model()
    paths = []
    for value in range(1, 11):
        for variable in model.trainable_variables:
            variable.assign(np.full(variable.shape, value, "float32"))
        paths.append(tmp_path / f"epoch-{value:04}.weights.h5")
        model.save_weights(paths[-1])
    averaged = average_checkpoints(small_model(), paths)
    for variable in averaged.trainable_variables:
        assert np.all(keras.ops.convert_to_numpy(variable.value) == 5.5)
    # Averaging into another model leaves the one in training alone.
    for variable in model.trainable_variables:
        assert np.all(keras.ops.convert_to_numpy(variable.value) == 10)


def test_the_last_ones_are_kept_whole(tmp_path):
    model = small_model()
    model.compile("sgd", "mse")
    data = np.ones((4, 3), "float32"), np.ones((4, 2), "float32")
    checkpoints = LastCheckpoints(tmp_path / "run", keep=2)
    model.fit(*data, epochs=4, verbose=0, callbacks=[checkpoints])
    names = [path.name for path in checkpoint_paths(tmp_path / "run")]
    assert names == ["epoch-0003.weights.h5", "epoch-0004.weights.h5"]
    assert len(list((tmp_path / "run").iterdir())) == 2
    other = small_model()
    other.load_weights(checkpoints.paths()[-1])
    for ours, theirs in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_errors_come_before_weights_change(tmp_path):
    model = small_model()
    before = model.get_weights()
    with pytest.raises(ValueError, match="missing: .*nowhere"):
        average_checkpoints(model, [tmp_path / "nowhere.weights.h5"])
    with pytest.raises(ValueError, match="one checkpoint or more"):
        average_checkpoints(model, [])
    with pytest.raises(ValueError, match="`keep` must be"):
        LastCheckpoints(tmp_path, keep=0)
    for kept, now in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(kept, now)


def test_a_folder_of_a_longer_run_is_not_written_into(tmp_path):
    model = small_model()
    model.compile("sgd", "mse")
    data = np.ones((4, 3), "float32"), np.ones((4, 2), "float32")
    model.fit(*data, epochs=4, verbose=0, callbacks=[LastCheckpoints(tmp_path, keep=2)])
    with pytest.raises(ValueError, match="`folder` .* after 0.* epoch-0003"):
        model.fit(*data, epochs=1, verbose=0, callbacks=[LastCheckpoints(tmp_path, keep=2)])
    goes_on = LastCheckpoints(tmp_path, keep=2)
    model.fit(*data, initial_epoch=4, epochs=5, verbose=0, callbacks=[goes_on])
    assert [path.name[:10] for path in goes_on.paths()] == ["epoch-0004", "epoch-0005"]
