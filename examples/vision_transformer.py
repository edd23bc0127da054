"""A Vision Transformer beside a convolutional net, on few and on many images: who needs the data?

    pip install "keras-transformer-layers[examples]"
    python examples/vision_transformer.py --plot data_hunger.png

The images are the 1,797 handwritten digits, 8 x 8 pixels, that scikit-learn carries. A convolution
is made to look at neighbours and to see the same thing anywhere; a Transformer must learn both,
which Dosovitskiy et al. 2021 (section 4.3, figures 3 and 4) measured on millions of images: behind
a convolutional net on 9 million, ahead on 90. Here both have about the same number of parameters,
the same number of steps and no augmentation; accuracies are means over some draws of training
images, on 500 others.

Expected, in some 5 processor minutes on TensorFlow; another run may differ by 0.03 with 40 images
and by 0.01 from 640 on, for threads add up in no fixed order:

    training images   40    80   160   320   640  1297
    ViT             0.59  0.73  0.84  0.90  0.92  0.93
    convolutional   0.80  0.92  0.95  0.98  0.99 0.995
"""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

from keras_transformer.models import VisionTransformer
from keras_transformer.training import Adam
from keras_transformer.visualization.figure import HUES, INK, PALE, finish, new_figure

TESTED = 500
BATCH_SIZE = 32


def main():
    arguments = parse_arguments()
    images, labels = digits()
    most = len(images) - TESTED
    if max(arguments.sizes) > most:
        raise SystemExit(f"--sizes must be at most {most}, all but {TESTED}; got {arguments.sizes}")
    makers = {
        "ViT": lambda: vision_transformer(arguments.layers),
        "convolutional": convolutional_net,
    }
    keras.utils.set_random_seed(0)  # of the models' dropout
    models = {name: compiled(make, arguments.steps) for name, make in makers.items()}
    for name, model in models.items():
        print(f"{name}: {model.count_params():,} parameters")
    print("\ntraining images     ViT  convolutional")
    curves = {name: [] for name in makers}
    for size in arguments.sizes:
        for name, make in makers.items():
            found = [
                accuracy_after(models[name], make, size, seed, images, labels, arguments.steps)
                for seed in range(arguments.repeats)
            ]
            curves[name].append(found)
        means = [np.mean(curves[name][-1]) for name in makers]
        print(f"{size:15}  {means[0]:6.3f}  {means[1]:13.3f}", flush=True)
    if arguments.plot:
        plot(arguments.sizes, curves, arguments.plot)
        print(arguments.plot)


def digits():
    """Returns images (n, 8, 8, 1), 0 to 1, and labels (n,), in one random order."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise SystemExit(
            "The digits come with scikit-learn: pip install keras-transformer-layers[examples]"
        ) from error
    bunch = load_digits()
    order = np.random.default_rng(0).permutation(len(bunch.target))
    return bunch.images[order, :, :, None].astype("float32") / 16, bunch.target[order]


def vision_transformer(num_layers):
    """Returns a ViT that reads sixteen patches of 2 x 2 pixels and a class token."""
    return VisionTransformer(
        image_size=8,
        patch_size=2,
        num_classes=10,
        num_layers=num_layers,
        model_dim=48,
        num_heads=4,
        intermediate_dim=96,
        dropout=0.1,
        num_channels=1,
    )


def convolutional_net():
    """Returns three convolutions of 3 x 3, with normalization, and pooling between them."""
    model = keras.Sequential([keras.Input((8, 8, 1))])
    for filters in (32, 64, 96):
        model.add(keras.layers.Conv2D(filters, 3, padding="same", use_bias=False))
        model.add(keras.layers.BatchNormalization(momentum=0.9))
        model.add(keras.layers.ReLU())
        if filters < 96:
            model.add(keras.layers.MaxPooling2D())
    model.add(keras.layers.GlobalAveragePooling2D())
    model.add(keras.layers.Dropout(0.1))
    model.add(keras.layers.Dense(10))
    return model


def compiled(make, steps):
    """Returns a model that is trained again and again from new weights, so compiled only once."""
    model = make()
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps, warmup_target=1e-3, warmup_steps=max(1, steps // 10)
    )
    model.compile(
        Adam(schedule, weight_decay=0.05, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        # XLA would compile longer than these models train; JAX knows no other way.
        jit_compile=False if keras.config.backend() == "tensorflow" else "auto",
    )
    model.optimizer.build(model.trainable_variables)
    return model


def accuracy_after(model, make, size, seed, images, labels, steps):
    """Returns the accuracy after training on `size` images, from the weights of a new model."""
    keras.utils.set_random_seed(seed)
    model.set_weights(make().get_weights())
    for variable in model.optimizer.variables:  # the step and the moments, all 0 at first
        variable.assign(np.zeros(variable.shape))
    random = np.random.default_rng(seed)
    chosen = TESTED + random.permutation(len(images) - TESTED)[:size]
    passes = -(-steps * BATCH_SIZE // size)
    order = np.concatenate([random.permutation(chosen) for _ in range(passes)])
    order = order[: steps * BATCH_SIZE]
    model.fit(images[order], labels[order], BATCH_SIZE, shuffle=False, verbose=0)
    found = model.evaluate(images[:TESTED], labels[:TESTED], TESTED, verbose=0, return_dict=True)
    return found["accuracy"]


def plot(sizes, curves, path):
    """Draws the error against the number of images, both logarithmic; a dot for each draw."""
    figure = new_figure(6.4, 3.8)
    axes = figure.subplots()
    for (name, found), hue in zip(curves.items(), HUES, strict=False):
        errors = 100 * (1 - np.array(found))  # (sizes, repeats)
        axes.plot(sizes, errors.mean(axis=1), color=hue, label=name)
        for column in errors.T:
            axes.plot(sizes, column, "o", color=hue, markersize=3, alpha=0.5)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    ticks = [tick for tick in (0.5, 1, 2, 5, 10, 20, 50) if tick <= 100]
    axes.set_yticks(ticks, [f"{tick:g} %" for tick in ticks])
    axes.set_title("Errors on 500 digits by training images", color=INK, fontsize=10, loc="left")
    axes.set_xlabel("training images", color=PALE, fontsize=9)
    axes.tick_params(labelsize=9, colors=PALE)
    axes.grid(axis="y", color="#e8e9ef")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    finish(figure, path)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--sizes",
        type=positive,
        nargs="+",
        default=[40, 80, 160, 320, 640, 1297],
        help="numbers of training images",
    )
    parser.add_argument("--repeats", type=positive, default=3, help="draws of images to average")
    parser.add_argument("--steps", type=positive, default=500, help=f"of {BATCH_SIZE} images")
    parser.add_argument("--layers", type=positive, default=4, help="blocks of the ViT")
    parser.add_argument("--plot", help="picture to write: .png, .svg or .pdf")
    return parser.parse_args()


def positive(text):
    """Reads an argument that must be an integer above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be an integer above 0; got {text!r}")
    return int(text)


if __name__ == "__main__":
    main()
