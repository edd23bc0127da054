"""Masked-language-model pre-training, then fine-tuning, against training from scratch.

    python examples/pretrain_and_finetune.py

A small BERT reads English captions that the embedded grammar writes, with 15 % of their pieces
hidden, and guesses those. Then it is told, for a few captions, which are about people and which
about animals, and judges captions about other people and animals: words that no label has named.
The same encoder with random weights learns from the same labels, in as many steps.

Expected, in some 4 processor minutes on TensorFlow (a guess is right in 0.500):

    labels  pre-trained  from scratch
         8        0.606         0.553
        32        0.688         0.607
       128        0.800         0.654

Each figure is the mean of two draws of labels, on 400 captions; gaps below 0.04 say little.
"""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

from keras_transformer.models import MaskedLanguageModel, TransformerEncoder
from keras_transformer.text import CaptionGrammar, SubwordTokenizer, mask_tokens
from keras_transformer.text.captions.nouns import GROUPS
from keras_transformer.training import Adam, ProgressLine, SequenceCrossentropy, TokenAccuracy

KINDS = ("people", "animals")
TESTED = 200  # captions of each kind
FINETUNING_BATCH = 16


def main():
    arguments = parse_arguments()
    keras.utils.set_random_seed(arguments.seed)
    read, _ = CaptionGrammar(arguments.seed).pairs(arguments.captions, "train")
    told, untold = captions_by_kind(read)
    check_budgets(arguments.labels, told)
    tokenizer = SubwordTokenizer.train(read, arguments.vocabulary_size)
    masked = MaskedLanguageModel(build_encoder(tokenizer, arguments, pooling=None))
    print(f"{masked.count_params():,} parameters, {len(read):,} captions to read")
    pretrain(masked, rows_of(tokenizer, read, arguments.length), tokenizer, arguments)

    classifier = build_classifier(tokenizer, arguments)
    tested = examples_of(tokenizer, first_of(untold, TESTED), arguments.length)
    print(f"\n{len(tested[1])} captions to judge")
    print("labels  pre-trained  from scratch")
    for budget in arguments.labels:
        found = []
        for seed in range(arguments.repeats):
            drawn = {kind: shuffled(texts, seed) for kind, texts in told.items()}
            labelled = examples_of(tokenizer, first_of(drawn, budget // 2), arguments.length)
            found.append(
                [
                    accuracy_after(classifier, encoder, labelled, tested, seed, arguments)
                    for encoder in (masked.encoder, None)
                ]
            )
        pretrained, from_scratch = np.mean(found, axis=0)
        print(f"{budget:6}  {pretrained:11.3f}  {from_scratch:12.3f}", flush=True)


def captions_by_kind(captions):
    """Returns two {kind: captions}: those whose nouns may be told, and those of the other nouns.

    A caption about both kinds, or with nouns of either half, is in neither.
    """
    place = {}
    for kind in KINDS:
        for number, noun in enumerate(GROUPS[kind]):
            place |= dict.fromkeys((noun.singular, noun.plural), (number % 2, kind))
    halves = {kind: [] for kind in KINDS}, {kind: [] for kind in KINDS}
    for caption in captions:
        words = caption.lower().replace(",", "").rstrip(".").split()
        found = {place[word] for word in words if word in place}
        if len(found) == 1:
            half, kind = found.pop()
            halves[half][kind].append(caption)
    return halves


def shuffled(texts, seed):
    return [texts[number] for number in np.random.default_rng(seed).permutation(len(texts))]


def first_of(texts_by_kind, count):
    """Returns {kind: its first so many texts}."""
    return {kind: texts[:count] for kind, texts in texts_by_kind.items()}


def check_budgets(budgets, told):
    """Ends the program where there are fewer captions of a kind than are to be labelled."""
    most = 2 * min(map(len, told.values()))
    if max(budgets) > most:
        raise SystemExit(f"--labels must be at most {most}, the captions there are; got {budgets}")


def examples_of(tokenizer, texts_by_kind, length):
    """Returns rows of tokens, and the numbers of their kinds."""
    texts = [text for kind in KINDS for text in texts_by_kind[kind]]
    labels = [number for number, kind in enumerate(KINDS) for _ in texts_by_kind[kind]]
    return rows_of(tokenizer, texts, length), np.array(labels)


def rows_of(tokenizer, texts, length):
    """Returns int32 (n, length): start and the first pieces of each text, then padding."""
    rows = np.full((len(texts), length), tokenizer.pad_id, "int32")
    for row, ids in zip(rows, tokenizer.tokenize(list(texts)), strict=True):
        ids = [tokenizer.start_id, *ids][:length]
        row[: len(ids)] = ids
    return rows


def build_encoder(tokenizer, arguments, pooling):
    """Returns the encoder; one id more than the tokenizer's is the mask."""
    return TransformerEncoder(
        tokenizer.vocabulary_size + 1,
        num_layers=arguments.layers,
        model_dim=arguments.width,
        num_heads=4,
        intermediate_dim=4 * arguments.width,
        dropout=0.1,
        normalize_first=True,
        activation="gelu",
        pooling=pooling,
        pad_id=tokenizer.pad_id,
        seed=arguments.seed,
    )


def special_ids(tokenizer):
    return [tokenizer.pad_id, tokenizer.unk_id, tokenizer.start_id, tokenizer.end_id]


class MaskedBatches(keras.utils.PyDataset):
    """Batches of rows with pieces hidden, other ones in each epoch, in another order."""

    def __init__(self, rows, tokenizer, batch_size):
        super().__init__()
        self.rows = rows
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.epoch = -1
        self.on_epoch_end()

    def on_epoch_end(self):
        self.epoch += 1
        tokenizer = self.tokenizer
        self.masked = mask_tokens(
            np.random.default_rng(self.epoch).permutation(self.rows),
            mask_id=tokenizer.vocabulary_size,
            vocabulary_size=tokenizer.vocabulary_size + 1,
            special_ids=special_ids(tokenizer),
            seed=self.epoch,
        )

    def __len__(self):
        return -(-len(self.rows) // self.batch_size)

    def __getitem__(self, index):
        chosen = slice(index * self.batch_size, (index + 1) * self.batch_size)
        tokens, labels, weights = (part[chosen] for part in self.masked)
        return {"tokens": tokens}, labels, weights


def pretrain(model, rows, tokenizer, arguments):
    """Trains the model to guess hidden pieces."""
    batches = MaskedBatches(rows, tokenizer, arguments.batch_size)
    steps = arguments.epochs * len(batches)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps, warmup_target=2e-3, warmup_steps=max(1, steps // 20)
    )
    model.compile(
        Adam(schedule, weight_decay=0.01, global_clipnorm=1.0),
        SequenceCrossentropy(label_smoothing=0.0, pad_id=tokenizer.pad_id),
        metrics=[TokenAccuracy(tokenizer.pad_id)],
        jit_compile=jit_compile(),
    )
    progress = ProgressLine(int((rows != tokenizer.pad_id).sum()))
    model.fit(batches, epochs=arguments.epochs, shuffle=False, verbose=0, callbacks=[progress])


def build_classifier(tokenizer, arguments):
    """Returns an encoder under a layer that tells a caption's kind.

    It is trained again and again from other weights, so compiled only once.
    """
    steps = arguments.finetuning_steps
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps, warmup_target=arguments.rate, warmup_steps=max(1, steps // 10)
    )
    encoder = build_encoder(tokenizer, arguments, pooling="mean")
    logits = keras.layers.Dense(len(KINDS), name="kind")(encoder.output)
    classifier = keras.Model(encoder.input, logits)
    classifier.compile(
        Adam(schedule, weight_decay=0.01, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=jit_compile(),
    )
    classifier.optimizer.build(classifier.trainable_variables)
    return classifier


def accuracy_after(classifier, encoder, labelled, test, seed, arguments):
    """Returns the accuracy on `test` after training on `labelled`, both (tokens, labels).

    The encoder's weights are those of `encoder`, or random if it is None.
    """
    keras.utils.set_random_seed(seed)
    anew = keras.models.clone_model(classifier)
    if encoder is not None:
        *_, kernel, bias = anew.get_weights()
        anew.set_weights([*encoder.get_weights(), kernel, bias])
    classifier.set_weights(anew.get_weights())
    for variable in classifier.optimizer.variables:  # the step and the moments, all 0 at first
        variable.assign(np.zeros(variable.shape))
    tokens, labels = labelled
    random = np.random.default_rng(seed)
    read = FINETUNING_BATCH * arguments.finetuning_steps
    passes = -(-read // len(labels))
    order = np.concatenate([random.permutation(len(labels)) for _ in range(passes)])[:read]
    classifier.fit(
        {"tokens": tokens[order]}, labels[order], FINETUNING_BATCH, shuffle=False, verbose=0
    )
    tokens, labels = test
    return classifier.evaluate({"tokens": tokens}, labels, verbose=0, return_dict=True)["accuracy"]


def jit_compile():
    """XLA would compile longer than these models train; JAX knows no other way."""
    return False if keras.config.backend() == "tensorflow" else "auto"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=positive, default=8, help="of pre-training")
    parser.add_argument("--captions", type=positive, default=10000, help="to read in pre-training")
    parser.add_argument("--finetuning-steps", type=positive, default=150, help="of 16 captions")
    parser.add_argument("--rate", type=float, default=5e-4, help="learning rate of fine-tuning")
    parser.add_argument(
        "--labels",
        type=positive,
        nargs="+",
        default=[8, 32, 128],
        help="captions told the kind of, half of each",
    )
    parser.add_argument("--repeats", type=positive, default=2, help="draws of labels to average")
    parser.add_argument("--vocabulary-size", type=positive, default=1000)
    parser.add_argument("--layers", type=positive, default=2)
    parser.add_argument(
        "--width", type=positive, default=128, help="of the model; 4 heads share it"
    )
    parser.add_argument("--length", type=positive, default=32, help="pieces of a caption read")
    parser.add_argument("--batch-size", type=positive, default=64, help="rows of pre-training")
    parser.add_argument("--seed", type=positive, default=1)
    arguments = parser.parse_args()
    if arguments.width % 4:
        parser.error(f"--width must be a multiple of the 4 heads; got {arguments.width}")
    if not arguments.rate > 0:
        parser.error(f"--rate must be above 0; got {arguments.rate}")
    return arguments


def positive(text):
    """Reads an argument that must be an integer above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be an integer above 0; got {text!r}")
    return int(text)


if __name__ == "__main__":
    main()
