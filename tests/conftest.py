"""The whole suite runs on the backend that KERAS_BACKEND names, one process a backend."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
import pytest


@pytest.fixture(autouse=True)
def seeded():
    """Every test starts from the same random state and float32."""
    keras.utils.set_random_seed(1706)
    keras.config.set_dtype_policy("float32")
    yield
    keras.config.set_dtype_policy("float32")
