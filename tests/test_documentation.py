"""What the README, the pages and the docstrings show is run as it stands there."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_transformer

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(keras_transformer.__path__, "keras_transformer.")
    if not module.name.endswith("__main__")
)


def python_of(page):
    """Returns the page's python blocks as one program whose line numbers are the page's."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * len(text.splitlines())
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        code = block[1].splitlines()
        lines[first : first + len(code)] = code
    return "\n".join(lines)


@pytest.mark.parametrize(
    "page",
    [
        # The README runs on every backend. The pages show what other tests run on every one.
        pytest.param(page, id=page.name, marks=[] if page == README else pytest.mark.any_backend)
        for page in PAGES
        if BLOCK.search(page.read_text(encoding="utf-8"))
    ],
)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    """As a program of its own; in this process, for importing a backend is most of its time."""
    code = python_of(page)
    if "visualization." in code:
        pytest.importorskip("matplotlib")
    if keras.config.backend() == "tensorflow":
        # XLA takes longer to compile these small models than they to train.
        monkeypatch.setattr(keras.src.trainers.trainer, "model_supports_jit", lambda model: False)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(page), "exec"), {"__name__": page.stem})
    if page == README:
        accuracy = re.findall(r"token_accuracy: ([\d.]+)", capsys.readouterr().out)[-1]
        assert float(accuracy) > 0.97


def shown(value):
    """What a reader expects to see: shapes as tuples, tensors as their numbers."""
    if keras.ops.is_tensor(value):
        return np.array2string(keras.ops.convert_to_numpy(value), separator=", ")
    if type(value).__name__ in ("TensorShape", "Size"):
        return str(tuple(value))
    return repr(value)


def show(value):
    if value is not None:
        print(shown(value))


@pytest.mark.any_backend
@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_docstrings(name, monkeypatch, tmp_path):
    module = importlib.import_module(name)
    names = {**public_names(), **vars(module)}
    examples = [test for test in doctest.DocTestFinder().find(module, globs=names) if test.examples]
    monkeypatch.setattr(sys, "__displayhook__", show)  # doctest shows results by it
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in examples:
        report = []
        runner.run(test, out=report.append)
        assert not report, "".join(report)


def public_names():
    """Returns what an example may name without an import: the package's public classes."""
    names = {"keras": keras, "keras_transformer": keras_transformer}
    for part in ("layers", "models", "decoding", "training", "text"):
        package = getattr(keras_transformer, part)
        names |= {name: value for name, value in vars(package).items() if name[0].isupper()}
    return names


@pytest.mark.any_backend
def test_the_site_builds_strictly(tmp_path):
    pytest.importorskip("mkdocs")
    process = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr[-3000:]


@pytest.mark.any_backend
def test_ci_runs_the_command_of_the_readme():
    """`.ci/run` finds its command by this mark."""
    readme = README.read_text(encoding="utf-8")
    command = re.search(r"^<!-- run by \.ci/run -->\n```bash\n(.*?)\n```$", readme, re.M | re.S)
    assert command[1].endswith("tests/on_every_backend.py")
