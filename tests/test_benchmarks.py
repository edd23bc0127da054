"""The benchmarks' own arithmetic and protocol; no contender of theirs runs here."""

import ast
import json
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_transformer.models import Transformer

FOLDER = Path(__file__).parent.parent / "benchmarks"
pytestmark = pytest.mark.any_backend
FAKES = """
import time

class Sleeper:
    def __init__(self, milliseconds):
        self.seconds = milliseconds / 1000
        self.calls = 0
        print("a library's greeting, which is no reply")

    def run(self, repeats, factor=1):
        time.sleep(repeats * factor * self.seconds)
        self.calls += repeats

    def facts(self):
        return {"calls": self.calls}

class Failing(Sleeper):
    def run(self, repeats):
        if self.calls == 3:
            raise ArithmeticError("the fourth call goes wrong")
        super().run(repeats)

class Silent(Sleeper):
    def run(self, repeats):
        time.sleep(60)
"""


@pytest.fixture
def contender(benchmark, tmp_path):
    """A function that makes a contender of one of the fakes."""
    (tmp_path / "fakes.py").write_text(FAKES)
    make = benchmark("rounds").Contender

    def of(name, kind="Sleeper", milliseconds=1, **options):
        environment = {"PYTHONPATH": str(tmp_path)}
        return make(name, f"fakes:{kind}", {"milliseconds": milliseconds}, environment, **options)

    return of


def result(benchmark, name, *seconds, flops=None):
    facts = {"flops": flops} if flops else {"loss": 1.0}
    return benchmark("rounds").Result(name, {}, 1.0, 1, list(seconds), [0.0], 0, facts)


def test_rounds_measure_every_contender_in_every_round(benchmark, contender):
    rounds = benchmark("rounds")
    with rounds.Contest([contender("slow", milliseconds=59), contender("fast")]) as contest:
        results = contest.measure({"factor": 2}, rounds=3, seconds=0.1)
    assert [len(each.seconds) for each in results.values()] == [3, 3]
    assert results["slow"].repeats == 1 <= results["fast"].repeats <= 50
    # The first call and a second that fills a turn; then three turns.
    assert results["slow"].facts == {"calls": 2 + 3}
    assert results["slow"].median_seconds >= 0.118
    assert results["fast"].first_call_seconds >= 0.002
    assert rounds.ratios(results, "slow")["fast"] > 1
    assert contest.failures == {}


def test_a_turn_has_at_most_the_repeats_that_the_contender_allows(benchmark, contender):
    with benchmark("rounds").Contest([contender("fast", most_repeats=5)]) as contest:
        results = contest.measure(rounds=1, seconds=1.0)
    assert results["fast"].repeats == 5


def test_who_fails_is_named_with_the_error_and_the_others_go_on(benchmark, contender, capsys):
    missing = benchmark("rounds").Contender("missing", "no_such_package:Training")
    three = [missing, contender("failing", "Failing"), contender("sound")]
    with benchmark("rounds").Contest(three) as contest:
        results = contest.measure(rounds=2, seconds=0.001)
        assert contest.call("failing", {}) is None
        assert contest.facts("failing") == {}
    assert list(results) == ["sound"] and len(results["sound"].seconds) == 2
    assert "No module named 'no_such_package'" in contest.failures["missing"]
    assert contest.failures["failing"] == "ArithmeticError: the fourth call goes wrong"
    assert "missing is left out" in capsys.readouterr().err
    under_table = benchmark("report").notes(results.values(), contest.failures)
    assert "Left out: failing: ArithmeticError" in under_table


def test_a_contender_that_does_not_answer_is_given_up(benchmark, contender):
    silent = contender("silent", "Silent")
    with benchmark("rounds").Contest([silent], limit_seconds=1.0) as contest:
        assert contest.measure(rounds=1) == {}
    assert contest.failures == {"silent": "no answer within 1 s"}


def test_a_contender_for_which_memory_does_not_suffice_is_left_out(benchmark, contender):
    with benchmark("rounds").Contest([contender("late")]) as contest:
        contest._largest_peak = 10**18
        assert contest.measure(rounds=1) == {}
    assert "not enough memory" in contest.failures["late"]


def test_ratios_are_medians_of_ratios_within_rounds(benchmark):
    rounds = benchmark("rounds")
    results = {
        "reference": result(benchmark, "reference", 2.0, 20.0, 3.0),
        "ours-jax": result(benchmark, "ours-jax", 1.0, 5.0, 3.0),
    }
    # Within the rounds 2, 4 and 1; the ratio of the medians would be 1.
    assert rounds.ratios(results, "reference") == {"reference": 1.0, "ours-jax": 2.0}
    assert rounds.fastest(results) == "reference"  # of equal medians the first
    assert rounds.fastest(results, lambda name: name == "ours-jax") == "ours-jax"


def test_comparison_takes_the_best_matrix_rate_of_each_round(benchmark):
    measured = {
        "ours-jax": result(benchmark, "ours-jax", 1.0, 2.0),
        "torch-nn": result(benchmark, "torch-nn", 4.0, 4.0),
        "matrix-product-jax": result(benchmark, "matrix-product-jax", 1.0, 4.0, flops=80),
        "matrix-product-torch": result(benchmark, "matrix-product-torch", 2.0, 2.0, flops=80),
    }
    compared = benchmark("train").compare(measured, flops=20)
    assert compared.reference == "torch-nn" and list(compared.results) == ["ours-jax", "torch-nn"]
    assert compared.speeds == {"ours-jax": 3.0, "torch-nn": 1.0}
    # Rates 80 and 40 in the rounds: shares 20/80 and 10/40.
    assert compared.shares["ours-jax"] == pytest.approx(0.25)
    assert compared.rates == {"jax": 50.0, "torch": 40.0}


def test_random_batches_are_teacher_forced_with_an_eighth_of_padding(benchmark):
    workloads = benchmark("workloads")
    size = workloads.Size(1, 8, 16, 2, 97, 13, 24)
    batches = workloads.random_batches(size, 11)
    source, target, labels = batches.first(7)
    assert source.shape == target.shape == labels.shape == (7 * 13, 24)
    real = labels != workloads.PAD
    assert np.array_equal(real, target != workloads.PAD)
    assert set(real.sum(-1)) <= set(range(18, 25))
    assert np.all(target[:, 0] == workloads.START)
    assert np.array_equal(target[:, 1:][real[:, 1:]], labels[:, :-1][real[:, 1:]])
    last = np.take_along_axis(labels, real.sum(-1)[:, None] - 1, axis=-1)
    assert np.all(last == workloads.END) and np.sum(labels == workloads.END) == len(labels)
    assert 0.10 < 1 - batches.tokens / size.positions < 0.15


def test_operations_are_those_of_the_matrix_products(benchmark):
    workloads = benchmark("workloads")
    b, n, d, f, v, layers = 3, 5, 14, 11, 17, 2
    size = workloads.Size(layers, d, f, 2, v, b, n)

    def product(rows, inner, columns):
        return 2 * rows * inner * columns

    projections = 4 * product(b * n, d, d)
    attention = projections + b * (product(n, d, n) + product(n, n, d))
    feed_forward = product(b * n, d, f) + product(b * n, f, d)
    forward = layers * (3 * attention + 2 * feed_forward) + product(b * n, d, v)
    assert workloads.forward_flops(size) == forward
    assert workloads.train_flops(size) == 3 * forward


def test_parameters_by_formula_are_the_models(benchmark):
    workloads = benchmark("workloads")
    size = workloads.Size(2, 12, 17, 3, 31, 1, 1)
    model = Transformer(31, 2, 12, 3, 17)
    assert isinstance(model, keras.Model)
    assert workloads.num_parameters(size) == model.count_params()


def test_contenders_run_on_the_framework_that_their_name_says(benchmark):
    contenders = benchmark("contenders")
    workloads = benchmark("workloads")
    size = workloads.SIZES["smoke"]
    frameworks = {
        each.name: each.environment["KERAS_BACKEND"]
        for each in contenders.training_contenders(contenders.TRAINING, size, "float32")
    }
    assert frameworks["ours-tensorflow-xla"] == frameworks["keras-hub-tensorflow"] == "tensorflow"
    assert frameworks["keras-hub-jax"] == "jax" and frameworks["ours-torch"] == "torch"
    products = contenders.matrix_products(["ours-jax", "joeynmt", "torch-nn"], "float32", 8)
    assert [each.arguments["framework"] for each in products] == ["jax", "torch"]
    everyone = contenders.decoding_contenders(contenders.DECODING, size, 24, 32)
    for each in everyone + contenders.training_contenders(contenders.TRAINING, size, "float32"):
        json.dumps(each.arguments)
        module, name = each.target.split(":")
        tree = ast.parse((FOLDER / f"{module.replace('.', '/')}.py").read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


def test_table_aligns_its_columns(benchmark):
    table = benchmark("report").table(["", "tokens/s"], [["ours-jax", "1,234"], ["torch-nn", 5]])
    assert table.splitlines() == [
        "|          | tokens/s |",
        "|:---------|---------:|",
        "| ours-jax |    1,234 |",
        "| torch-nn |        5 |",
    ]


def test_numbers_have_three_digits_that_count(benchmark):
    number = benchmark("report").number
    assert [number(value) for value in (0.1234, 1.234, 12.34, 123.4, 1234.5)] == [
        "0.12",
        "1.23",
        "12.3",
        "123",
        "1,234",
    ]


def test_a_busy_machine_is_a_warning(benchmark):
    quiet, busy = (result(benchmark, name, 1.0) for name in ("quiet", "busy"))
    busy.other_cores = [0.0, 0.7, 0.9]
    assert benchmark("report").notes([quiet], {}) == ""
    assert "up to 0.7 of" in benchmark("report").notes([quiet, busy], {})


def test_records_are_added_as_lines_with_the_machine(benchmark, tmp_path):
    report = benchmark("report")
    file = tmp_path / "new" / "train.jsonl"
    report.append_lines(file, [{"name": "a"}, {"name": "b"}])
    report.append_lines(file, [{"name": "c"}])
    report.append_lines(None, [{"name": "nowhere"}])
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["name"] for line in lines] == ["a", "b", "c"]
    assert lines[0]["machine"]["keras"] == keras.__version__


def test_progress_tells_the_time_left(benchmark, monkeypatch, capsys):
    progress = benchmark("progress")
    clock = iter([0.0, 10.0, 10.0, 14.0, 14.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    shown = progress.Progress("beam 4", rounds=2)
    shown.turn_done(0, "a", turns_a_round=2)
    shown.turn_done(0, "b", turns_a_round=2)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "beam 4: round 1 of 2, a done, 30 s left",
        "beam 4: round 1 of 2, b done, 14 s left",
    ]
    assert progress.in_words(74.4) == "1 min 14 s"


def test_without_a_gpu_nothing_is_measured(benchmark, monkeypatch, capsys):
    gpu = benchmark("gpu")
    monkeypatch.setattr(gpu.shutil, "which", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    with pytest.raises(SystemExit) as ended:
        gpu.main()
    assert ended.value.code == gpu.NO_GPU == 2
    assert "No GPU is at hand" in capsys.readouterr().err


def test_a_gpus_rate_is_found_by_its_name(benchmark):
    gpu = benchmark("gpu")
    assert gpu.peak_rate("NVIDIA A100-SXM4-80GB") == 312e12
    assert gpu.peak_rate("NVIDIA H100 PCIe") == 756e12
    assert gpu.peak_rate("NVIDIA A10G") == 70e12
    assert gpu.peak_rate("Unheard Of 1") is None


def test_formulas_of_growth_meet_the_measurement_in_the_middle(benchmark):
    scaling = benchmark("scaling")
    wide = scaling.grown(scaling.MIDDLE, "width", 512)
    assert (wide.model_dim, wide.intermediate_dim, wide.num_heads) == (512, 2048, 8)
    measured = {scaling.MIDDLE: result(benchmark, "ours-jax", 2.0)}
    assert scaling.seconds_by_formula(scaling.MIDDLE, scaling.MIDDLE, measured) == 2.0
    double = scaling.grown(scaling.MIDDLE, "batch", 32)
    assert scaling.seconds_by_formula(double, scaling.MIDDLE, measured) == 4.0
    more = scaling.bytes_by_formula(double, scaling.MIDDLE, measured)
    activations = scaling.training_bytes(scaling.MIDDLE)
    activations -= 16 * benchmark("workloads").num_parameters(scaling.MIDDLE)
    assert more == activations


def test_imports_are_compared_within_their_rounds(benchmark):
    def rounds(*seconds):
        return [{"seconds": each, "bytes": 10**6, "loaded": ["jax"]} for each in seconds]

    found = {("jax", "keras"): rounds(1.0, 9.0, 1.0), ("jax", "keras_transformer"): rounds(2, 9, 3)}
    row = benchmark("imports").row("jax", "keras_transformer", found)
    assert row == ["keras_transformer on jax", "3.00", "1.00", "1", "0", "jax"]


@pytest.mark.parametrize("normalize_first", [False, True])
def test_the_weights_of_a_translator_run_in_transformers(normalize_first, benchmark, tmp_path):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    ids = {"pad_id": 0, "start_id": 2, "end_id": 3}
    options = {"num_decoder_layers": 1, "normalize_first": normalize_first, **ids}
    model = Transformer(31, 2, 14, 2, 19, **options)
    random = np.random.default_rng(5)
    for variable in model.trainable_variables:
        variable.assign(random.normal(size=variable.shape, scale=0.4))
    benchmark("contenders.bart_weights").write_checkpoint(model, tmp_path)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    source, target = random.integers(4, 31, (3, 7)), random.integers(4, 31, (3, 5))
    right = model({"source": source.astype("int32"), "target": target.astype("int32")})
    with torch.no_grad():
        found = theirs(
            input_ids=torch.from_numpy(source), decoder_input_ids=torch.from_numpy(target)
        ).logits
    right = keras.ops.convert_to_numpy(right)
    np.testing.assert_allclose(found.numpy(), right, atol=1e-3)  # with another epsilon
    assert right.std() > 0.1
