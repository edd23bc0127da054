"""The rules of `pyproject.toml` for style, so that a reader finds one way of writing."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("keras_transformer", "examples", "benchmarks", "tests")


@pytest.mark.any_backend
@pytest.mark.parametrize("check", [("check",), ("format", "--check")])
def test_ruff_finds_nothing(check):
    command = [sys.executable, "-m", "ruff", *check, "--no-cache", *FOLDERS]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
