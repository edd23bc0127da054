"""Two devices train to the weights of one: case 51, and that a loss is a mean over tokens."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

SCRIPT = Path(__file__).parent / "distributed_fit.py"


@pytest.mark.skipif(keras.config.backend() == "torch", reason="Keras has no distribution on torch")
def test_two_devices_train_as_one_does(tmp_path):
    results = []
    for devices in (1, 2):
        file = tmp_path / f"{devices}.npz"
        subprocess.run(
            [sys.executable, str(SCRIPT), str(devices), str(file)],
            env={**os.environ, "PYTHONPATH": str(SCRIPT.parent.parent)},
            check=True,
        )
        results.append(dict(np.load(file)))
    one, two = results
    assert one.keys() == two.keys()
    assert {"fit_loss", "fit_token_accuracy", "evaluate_perplexity"} <= one.keys()
    for name in one:
        np.testing.assert_allclose(two[name], one[name], rtol=2e-5, atol=2e-6, err_msg=name)
