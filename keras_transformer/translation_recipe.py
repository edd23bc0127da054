"""The whole way from sentence pairs to a translator, for the example and the command line."""

import contextlib
import dataclasses
import hashlib
import json
import random
from pathlib import Path

import keras

from keras_transformer.arguments import check_above_zero, check_positive
from keras_transformer.decoding import BeamSearch, GreedySearch
from keras_transformer.models import Transformer
from keras_transformer.text import SubwordTokenizer, TokenBatches
from keras_transformer.text.subword_tokenizer import END_ID, PAD_ID, START_ID
from keras_transformer.training import (
    Adam,
    LastCheckpoints,
    NoamSchedule,
    Perplexity,
    ProgressLine,
    SequenceCrossentropy,
    TokenAccuracy,
    TranslationScore,
    average_checkpoints,
    checkpoint_paths,
)
from keras_transformer.training.checkpoints import epoch_of
from keras_transformer.translator import Translator

SETTINGS_FILE = "recipe.json"
PAIRS = "pairs_sha256"  # in it, beside the recipe
TOKENIZER_FILE = "tokenizer.model"
HISTORY_FILE = "history.jsonl"
CHECKPOINTS = "checkpoints"
TRANSLATOR = "translator"
# What a resumed run may change, for it changes no step of training.
AFTERWARDS = ("epochs", "averaged", "score_every", "beam_width", "length_penalty")


@dataclasses.dataclass(frozen=True)
class TranslationRecipe:
    """What a run is made of; the defaults suit tens of thousands of pairs on a small machine.

    Attributes:
        vocabulary_size: pieces, shared by both languages.
        num_layers, model_dim, num_heads, intermediate_dim, dropout, normalize_first: of the
            `Transformer`; small data wants a small model, more dropout than the paper's, and trains
            more surely with pre-norm.
        label_smoothing: of `SequenceCrossentropy`.
        peak_rate, warmup_steps: of `NoamSchedule`: the rate at its peak, and when.
        tokens_per_batch: budget of `TokenBatches`, padding counted.
        max_length: pieces; longer sentences are left out of training, and counted.
        epochs: passes over the pairs.
        averaged: how many of the last epochs' weights are averaged at the end (section 6.1); all of
            them where there are fewer.
        score_every: epochs between two BLEU scores of the validation set (greedy search).
        beam_width, length_penalty: of the translator's `BeamSearch`.
        seed: of weights, dropout and the order of batches.
    """

    vocabulary_size: int = 8000
    num_layers: int = 4
    model_dim: int = 128
    num_heads: int = 4
    intermediate_dim: int = 256
    dropout: float = 0.2
    normalize_first: bool = True
    label_smoothing: float = 0.1
    peak_rate: float = 4e-3
    warmup_steps: int = 1000
    tokens_per_batch: int = 2560
    max_length: int = 100
    epochs: int = 12
    averaged: int = 4
    score_every: int = 2
    beam_width: int = 5
    length_penalty: float = 0.6
    seed: int = 1


def train_translator(data, output, recipe=None, *, resume=False, report=print):
    """Trains a translator and leaves everything of the run in one folder.

    The folder holds `recipe.json`, `tokenizer.model`, `history.jsonl` (a line an epoch),
    `checkpoints/` and, at the end, `translator/` for `Translator.load`.

    Args:
        data: `text.TranslationData`.
        output: path of a new folder; with `resume` of one that holds a run.
        recipe: `TranslationRecipe`.
        resume: whether to go on after the last epoch that the folder holds. The weights are then
            those of a run that was never interrupted.
        report: function that takes a line to show.

    Returns:
        `Translator`.

    Raises:
        ValueError: before any work, if the recipe cannot be followed, or not with these pairs, or
            the folder holds a run already, or holds none to resume, or one of another recipe or
            other pairs.
    """
    recipe = recipe or TranslationRecipe()
    output = Path(output)
    _check_recipe(recipe)
    _check_vocabulary(recipe, data.train)
    pairs = _fingerprint(data)
    _check_output(output, recipe, pairs, resume)
    # What a recipe can have wrong shows here, before the pairs are read and anything is written.
    model = build_model(recipe)
    compile_model(model, recipe)
    search = BeamSearch(recipe.beam_width, recipe.length_penalty)
    checkpoints = LastCheckpoints(output / CHECKPOINTS, keep=recipe.averaged)
    tokenizer = _tokenizer(data, output, recipe, resume)
    translator = Translator(model, tokenizer, search)
    greedy = Translator(model, tokenizer, GreedySearch())
    score = TranslationScore(
        greedy.translate, data.validation.sources, data.validation.targets, recipe.score_every
    )
    batches = TokenBatches(
        data.train,
        tokenizer,
        recipe.tokens_per_batch,
        max_length=recipe.max_length,
        seed=recipe.seed,
    )
    _begin(output, recipe, pairs, tokenizer)
    report(batches.summary())
    report(f"{model.count_params():,} parameters, {recipe.epochs} epochs")
    model.fit(
        batches,
        initial_epoch=_restore(model, output) if resume else 0,
        epochs=recipe.epochs,
        shuffle=False,  # the batches have an order of their own, which a resumed run repeats
        verbose=0,
        callbacks=[
            _EpochOrder(batches),
            score,
            ProgressLine(batches.num_tokens),
            _History(output / HISTORY_FILE),
            checkpoints,
        ],
    )
    average_checkpoints(model, checkpoints.paths()[-recipe.averaged :])
    translator.save(output / TRANSLATOR, overwrite=True)
    return translator


def build_model(recipe):
    """Returns the `Transformer` of a recipe, with the special ids of every `SubwordTokenizer`."""
    with _seeded_weights(recipe.seed):
        return _transformer(recipe)


@contextlib.contextmanager
def _seeded_weights(seed):
    """Lets Keras's initializers draw the same weights again, whatever was drawn before.

    Those without a seed of their own take one from Python's generator. The generator's state is put
    back: a caller's random numbers do not change. `keras.utils.set_random_seed` would load
    TensorFlow, on every backend.
    """
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


def _transformer(recipe):
    return Transformer(
        recipe.vocabulary_size,
        recipe.num_layers,
        recipe.model_dim,
        recipe.num_heads,
        recipe.intermediate_dim,
        recipe.dropout,
        normalize_first=recipe.normalize_first,
        pad_id=PAD_ID,
        start_id=START_ID,
        end_id=END_ID,
        seed=recipe.seed,
    )


def compile_model(model, recipe):
    """Compiles the model with the paper's optimizer, schedule and loss (sections 5.3, 5.4)."""
    schedule = NoamSchedule.with_peak(recipe.peak_rate, recipe.model_dim, recipe.warmup_steps)
    # XLA would compile a step for each shape of batch, which on a CPU takes longer than it saves;
    # TensorFlow's own graph takes every shape. JAX knows no other way, and torch runs eagerly.
    on_tensorflow = keras.config.backend() == "tensorflow"
    model.compile(
        Adam(schedule, beta_1=0.9, beta_2=0.98, epsilon=1e-9),
        SequenceCrossentropy(recipe.label_smoothing, pad_id=model.pad_id),
        metrics=[TokenAccuracy(model.pad_id), Perplexity(model.pad_id)],
        jit_compile=False if on_tensorflow else "auto",
    )


def load_recipe(output):
    """Returns the recipe of the run in a folder, and the fingerprint of its pairs.

    Raises:
        ValueError: if its file is damaged.
    """
    path = Path(output) / SETTINGS_FILE
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        pairs = settings.pop(PAIRS)
        return TranslationRecipe(**settings), pairs
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{path} is damaged: {error!r}. Begin a new run in another folder."
        ) from error


def _check_recipe(recipe):
    """Raises ValueError, by the recipe's own names, for what its parts would find under theirs."""
    sizes = [field.name for field in dataclasses.fields(recipe) if field.type is int]
    check_positive(**{name: getattr(recipe, name) for name in sizes if name != "seed"})
    check_above_zero(peak_rate=recipe.peak_rate)
    for narrow, wide in (("max_length", "tokens_per_batch"), ("beam_width", "vocabulary_size")):
        if getattr(recipe, narrow) > getattr(recipe, wide):
            raise ValueError(
                f"`{narrow}` must be at most `{wide}`; got {getattr(recipe, narrow)} and "
                f"{getattr(recipe, wide)}. Lower the one or raise the other."
            )


def _check_vocabulary(recipe, corpus):
    """Raises ValueError for a vocabulary that no pairs of this size can fill, before it is made."""
    characters = sum(len(line) for line in (*corpus.sources, *corpus.targets))
    if recipe.vocabulary_size > characters:
        raise ValueError(
            f"`vocabulary_size` must be at most {characters:,}, the characters of the training "
            f"pairs; got {recipe.vocabulary_size:,}. Lower it, or train on more pairs."
        )


def _fingerprint(data):
    """Returns a hash of the pairs that are trained and scored on, in their order."""
    digest = hashlib.sha256()
    for corpus in (data.train, data.validation):
        for lines in (corpus.sources, corpus.targets):
            digest.update("\n".join([*lines, ""]).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _check_output(output, recipe, pairs, resume):
    settings = output / SETTINGS_FILE
    if not resume:
        if output.exists() and not (output.is_dir() and not any(output.iterdir())):
            remedy = "resume the run in it" if settings.is_file() else "move it away"
            raise ValueError(
                f"`output` must be a new or empty folder; {output} holds something already. "
                f"Choose another, or {remedy}."
            )
        return
    if not settings.is_file() or not (output / TOKENIZER_FILE).is_file():
        raise ValueError(
            f"`output` must hold a run to resume; {output} has none. Start one without `resume`."
        )
    begun, begun_on = load_recipe(output)
    if begun_on != pairs:
        raise ValueError(
            f"A run must be resumed on its own pairs, training and validation; {output} was begun "
            "on others. Pass the same files, or begin a new run."
        )
    _check_epochs(output, recipe)
    kept, asked = dataclasses.asdict(begun), dataclasses.asdict(recipe)
    changed = [name for name in asked if name not in AFTERWARDS and asked[name] != kept[name]]
    if changed:
        differences = ", ".join(f"{name} {kept[name]!r}" for name in changed)
        raise ValueError(
            f"A run must be resumed with its own recipe, {', '.join(AFTERWARDS)} apart; {output} "
            f"was begun with {differences}."
        )


def _check_epochs(output, recipe):
    """Raises ValueError where a resumed run cannot end in the epochs and the average asked for."""
    kept = checkpoint_paths(output / CHECKPOINTS)
    done = _epochs_done(kept)
    if recipe.epochs < done:
        raise ValueError(
            f"`epochs` must be at least {done}, which the run in {output} has behind it; got "
            f"{recipe.epochs}. Raise it."
        )
    to_average = len(kept) + recipe.epochs - done
    if kept and recipe.averaged > to_average:
        raise ValueError(
            f"`averaged` must be at most {to_average}, the checkpoints that the run in {output} "
            f"has at its end; got {recipe.averaged}. Lower it, or train for more epochs."
        )


def _tokenizer(data, output, recipe, resume):
    if resume:
        return SubwordTokenizer.load(output / TOKENIZER_FILE)
    lines = [*data.train.sources, *data.train.targets]
    return SubwordTokenizer.train(lines, recipe.vocabulary_size)


def _begin(output, recipe, pairs, tokenizer):
    """Writes what a run is known by, the settings last: without them the folder holds no run."""
    output.mkdir(parents=True, exist_ok=True)
    tokenizer.save(output / TOKENIZER_FILE)
    settings = {**dataclasses.asdict(recipe), PAIRS: pairs}
    text = json.dumps(settings, indent=2) + "\n"
    (output / SETTINGS_FILE).write_text(text, encoding="utf-8")


def _restore(model, output):
    """Loads the last epoch's weights and optimizer state; returns how many epochs are done."""
    paths = checkpoint_paths(output / CHECKPOINTS)
    done = _epochs_done(paths)
    if paths:
        model.load_weights(paths[-1])
    _forget_history_after(output / HISTORY_FILE, done)
    return done


def _epochs_done(paths):
    """Returns how many epochs a run with these checkpoints has behind it."""
    return epoch_of(paths[-1]) if paths else 0


def _forget_history_after(path, epochs):
    """Drops the line of an epoch whose checkpoint was not written: it is trained again."""
    if path.is_file():
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("".join(f"{line}\n" for line in lines[:epochs]), encoding="utf-8")


class _EpochOrder(keras.callbacks.Callback):
    """Tells the batches which epoch's order to serve, so that a resumed run sees the same."""

    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def on_epoch_begin(self, epoch, logs=None):
        self.batches.epoch = epoch


class _History(keras.callbacks.Callback):
    """Adds one line of JSON an epoch to a file."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def on_epoch_end(self, epoch, logs=None):
        numbers = {name: float(value) for name, value in (logs or {}).items()}
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"epoch": epoch + 1, **numbers}) + "\n")
