"""How the error of random-feature attention falls as the features grow.

    python benchmarks/random_features.py --plot docs/images/random_features.svg

Queries, keys and values are normal numbers, one row of 256 tokens, 8 heads of 64; queries and keys
are scaled so that a score's standard deviation is what `--deviations` say. The error is

    |estimate - exact| / |exact|        Frobenius norms, a mean over draws of the features

of the attention's output. Theory says it falls as 1 / sqrt(features), and grows fast with the size
of the scores (Choromanski et al. 2021, section 3). Half a minute on one CPU core.
"""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import report

from keras_transformer import layers
from keras_transformer.ops.attention_request import AttentionRequest

TOKENS, HEADS, WIDTH = 256, 8, 64
FEATURES = (16, 32, 64, 128, 256, 512, 1024, 2048)


def main():
    arguments = parse_arguments()
    errors = {
        f"scores of deviation {deviation:g}": {
            features: error(deviation, features, arguments.draws) for features in FEATURES
        }
        for deviation in arguments.deviations
    }
    rows = [[name, *(f"{of[each]:.3f}" for each in FEATURES)] for name, of in errors.items()]
    print(report.table(["features", *map(str, FEATURES)], rows))
    report.append_lines(
        arguments.output,
        [
            {"benchmark": "random_features", "scores": name, "errors": of}
            for name, of in errors.items()
        ],
    )
    first = min(errors[name][FEATURES[0]] for name in errors)
    law = {each: first * (FEATURES[0] / each) ** 0.5 for each in FEATURES}
    report.line_chart(
        arguments.plot,
        "Error of random-feature attention",
        ("features", "relative error of the output"),
        {**errors, "1 / sqrt(features)": law},
        logarithmic=True,
    )


def error(deviation, features, draws):
    """Returns the mean relative error of the estimate over draws of the features."""
    random = np.random.default_rng(0)
    shape = (1, TOKENS, HEADS, WIDTH)
    query, key, value = (random.normal(size=shape).astype("float32") for _ in range(3))
    # q . k has deviation sqrt(WIDTH) before scaling; both carry the root of what is asked.
    request = AttentionRequest(scale=deviation * WIDTH**-0.5)
    exact = attend(layers.DenseAttention(), query, key, value, request)
    estimates = (
        attend(layers.RandomFeatureAttention(features, seed=seed), query, key, value, request)
        for seed in range(draws)
    )
    norm = np.linalg.norm(exact)
    return float(np.mean([np.linalg.norm(estimate - exact) / norm for estimate in estimates]))


def attend(mechanism, query, key, value, request):
    mechanism.build(query.shape)
    heads = map(keras.ops.convert_to_tensor, (query, key, value))
    return keras.ops.convert_to_numpy(mechanism.attend(*heads, request).output)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--deviations", type=float, nargs="+", default=[0.25, 0.5, 1.0])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--output", help="file of JSON lines to add to")
    parser.add_argument("--plot", help="picture to draw, .svg or .png")
    return parser.parse_args()


if __name__ == "__main__":
    main()
