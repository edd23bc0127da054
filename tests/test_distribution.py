"""Devices that share a batch give what one gives: a loss is a mean over tokens, cases 51 and 53."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

SCRIPT = Path(__file__).parent / "distributed_fit.py"


@pytest.mark.skipif(keras.config.backend() == "torch", reason="Keras has no distribution on torch")
def test_devices_that_share_batches_do_as_one_does(tmp_path):
    # The last batch of `evaluate` and `predict` is two rows: none for some of four devices, or, on
    # JAX, an error that says so.
    one, two, four = (run(devices, tmp_path / f"{devices}.npz") for devices in (1, 2, 4))
    assert {"fit_loss", "fit_token_accuracy", "evaluate_perplexity"} <= one.keys()
    assert one["predictions"].shape == (10, 7, 31)
    compare(one, two)
    if "refused" in four:
        assert "partitioned 4 times, but the dimension size is 2" in str(four["refused"])
        one = {name: each for name, each in one.items() if name.startswith(("fit", "weight"))}
    compare(one, four)


def compare(one, several):
    for name in one:
        np.testing.assert_allclose(several[name], one[name], rtol=2e-5, atol=2e-6, err_msg=name)


def run(devices, file):
    subprocess.run(
        [sys.executable, str(SCRIPT), str(devices), str(file)],
        env={**os.environ, "PYTHONPATH": str(SCRIPT.parent.parent)},
        check=True,
    )
    return dict(np.load(file))
