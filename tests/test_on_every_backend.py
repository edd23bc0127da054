"""The script that runs the tests on every backend, on a folder of tests of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.any_backend
SCRIPT = Path(__file__).parent / "on_every_backend.py"
SETTINGS = "[pytest]\nmarkers =\n    slow: s\n    any_backend: a\n"
TESTS = """
import os
import pytest

def test_on_this_backend():
    print("ran on", os.environ["KERAS_BACKEND"])

@pytest.mark.any_backend
def test_of_plain_python():
    print("plain on", os.environ["KERAS_BACKEND"])

@pytest.mark.slow
def test_that_trains():
    print("slow on", os.environ["KERAS_BACKEND"])
"""


def run_script(folder, tests, *options):
    (folder / "pytest.ini").write_text(SETTINGS)
    (folder / "test_it.py").write_text(tests)
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return subprocess.run(
        [sys.executable, SCRIPT, "-s", *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )


def test_each_backend_runs_and_plain_python_runs_once(tmp_path):
    done = run_script(tmp_path, TESTS)
    assert done.returncode == 0, done.stdout
    for backend in ("tensorflow", "jax", "torch"):
        assert done.stdout.count(f"ran on {backend}") == 1
        assert f"slow on {backend}" not in done.stdout
    assert done.stdout.count("plain on") == 1
    assert "2 passed, 1 deselected" in done.stdout.split("summary")[1]


def test_options_go_to_pytest(tmp_path):
    done = run_script(tmp_path, TESTS, "-m", "slow or not slow", "-k", "trains")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("slow on") == 3 and "ran on" not in done.stdout


def test_a_failure_on_one_backend_fails_the_run(tmp_path):
    done = run_script(
        tmp_path, "import os\ndef test_it():\n    assert os.environ['KERAS_BACKEND'] != 'jax'\n"
    )
    assert done.returncode == 1
    assert "1 failed" in done.stdout.split("summary")[1]


def test_a_run_without_tests_fails(tmp_path):
    done = run_script(tmp_path, "")
    assert done.returncode == 1
    assert "pytest's status 5" in done.stdout
