"""Batches under a token budget: exact layout, case 49, order, resuming, and `fit` with them."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_transformer.text import ParallelCorpus, SubwordTokenizer, TokenBatches

IDS = SimpleNamespace(tokenize=None, vocabulary_size=1009, pad_id=0, unk_id=1, start_id=2, end_id=3)
IDS.tokenize = lambda sentences: [[int(word) for word in text.split()] for text in sentences]


def pairs_of_lengths(lengths):
    """Pairs whose first id (of both sides) tells which pair it is, for lengths above 0."""
    pairs = []
    for number, (source, target) in enumerate(lengths):
        ids = [4 + number] + [5] * 400
        pairs.append((ids[:source], ids[:target]))
    return pairs


def random_pairs(count, longest=40, seed=0):
    generator = np.random.default_rng(seed)
    return pairs_of_lengths(generator.integers(1, longest, (count, 2)).tolist())


def first_ids(batch):
    """The numbers of the pairs in a batch, made by `pairs_of_lengths`."""
    (inputs, labels, weights) = batch
    return [int(row[0]) - 4 for row, weight in zip(labels, weights, strict=True) if weight[0]]


@pytest.mark.any_backend
def test_a_batch_by_hand():
    batches = TokenBatches(
        [([11, 13], [17]), ([], []), ([19], [23, 29, 31])], IDS, 40, shuffle=False, rows_multiple=2
    )
    assert len(batches) == 1
    assert batches.distinct_shapes == ((4, 4),)
    inputs, labels, weights = batches[0]
    assert inputs["source"].tolist() == [[11, 13, 3, 0], [3, 0, 0, 0], [19, 3, 0, 0], [0] * 4]
    assert inputs["target"].tolist() == [[2, 17, 0, 0], [2, 0, 0, 0], [2, 23, 29, 31], [0] * 4]
    assert labels.tolist() == [[17, 3, 0, 0], [3, 0, 0, 0], [23, 29, 31, 3], [0] * 4]
    assert weights.tolist() == [[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1], [0] * 4]
    assert [x.dtype for x in (*inputs.values(), labels, weights)] == ["int32"] * 3 + ["float32"]
    assert batches.num_tokens == 7
    assert batches.padding_share == 1 - (6 + 7) / 32


@pytest.mark.any_backend
def test_case_49_budget_too_long_empty_and_partial():
    lengths = [(50, 3)] + [(3, 3)] * 37 + [(2, 61), (300, 5), (0, 0), (99, 7), (100, 1)]
    batches = TokenBatches(pairs_of_lengths(lengths), IDS, 100, length_step=8)
    assert batches.skipped == 2
    assert batches.num_sentences == 41
    assert "2 skipped (longer than 100 tokens)" in batches.summary()
    seen, empty = [], 0
    for inputs, labels, weights in batches:
        rows, width = labels.shape
        assert inputs["source"].shape == inputs["target"].shape == (rows, width)
        assert rows * width <= 100
        assert (rows, width) in batches.distinct_shapes
        seen += [n for n in first_ids((inputs, labels, weights)) if n >= 0]
        empty += int((labels[:, 0] == IDS.end_id).sum())
    assert sorted(seen) == [*range(39), 41]
    assert empty == 1
    assert sum(int(weights.sum()) for _, _, weights in batches) == batches.num_tokens
    with pytest.raises(ValueError, match=r"got 2 of 43 pairs .* 100 tokens, .* index 39 with 301"):
        TokenBatches(pairs_of_lengths(lengths), IDS, 100, too_long="error")
    with pytest.raises(ValueError, match="no sentence fits"):
        TokenBatches(pairs_of_lengths([(300, 5), (1, 200)]), IDS, 100)


@pytest.mark.any_backend
@pytest.mark.parametrize("rows_multiple", [1, 3])
def test_every_pair_once_an_epoch_in_few_shapes(rows_multiple):
    pairs = random_pairs(307)
    batches = TokenBatches(pairs, IDS, 331, rows_multiple=rows_multiple)
    shapes = set()
    for epoch in (0, 1, 5):
        seen = []
        for index in range(len(batches)):
            batch = batches.at(epoch, index)
            seen += first_ids(batch)
            shapes.add(batch[1].shape)
            assert batch[1].size <= 331
            assert len(batch[1]) % rows_multiple == 0
            for row, number in zip(batch[0]["source"], first_ids(batch), strict=False):
                assert row[: len(pairs[number][0]) + 1].tolist() == [*pairs[number][0], 3]
                assert not row[len(pairs[number][0]) + 1 :].any()
        assert sorted(seen) == list(range(307))
    assert sorted(shapes, key=lambda shape: shape[1]) == list(batches.distinct_shapes)
    assert len(shapes) <= 10


@pytest.mark.any_backend
def test_order_is_a_function_of_seed_and_epoch():
    pairs = random_pairs(211)

    def order(batches, epoch):
        return [first_ids(batches.at(epoch, index)) for index in range(len(batches))]

    one, two = TokenBatches(pairs, IDS, 211, seed=7), TokenBatches(pairs, IDS, 211, seed=7)
    later = order(one, 3)
    assert order(two, 0) == order(one, 0)
    assert order(two, 3) == later
    assert later != order(one, 0)
    assert order(TokenBatches(pairs, IDS, 211, seed=8), 3) != later
    fixed = TokenBatches(pairs, IDS, 211, shuffle=False)
    assert order(fixed, 3) == order(fixed, 0)
    assert all(batch == sorted(batch) for batch in order(fixed, 0))
    two.epoch = 3
    assert [first_ids(batch) for batch in two] == later
    assert first_ids(two[-1]) == later[-1]
    with pytest.raises(IndexError):
        two[len(two)]


@pytest.mark.any_backend
def test_first_two_batches_differ_in_width():
    # One width has nearly all batches: the second batch would nearly always have it too.
    batches = TokenBatches(pairs_of_lengths([(3, 3)] * 301 + [(30, 30)] * 4), IDS, 64)
    assert len(batches.distinct_shapes) == 2
    for epoch in range(30):
        assert batches.at(epoch, 0)[1].shape[1] != batches.at(epoch, 1)[1].shape[1]


@pytest.mark.any_backend
def test_rare_widths_join_and_rows_are_spread_evenly():
    batches = TokenBatches(pairs_of_lengths([(2, 2)] * 5 + [(9, 9)] * 3), IDS, 120)
    assert batches.distinct_shapes == ((8, 12),)
    # 41 sentences in batches of at most 30: two batches of 21 rows.
    batches = TokenBatches(pairs_of_lengths([(3, 2)] * 41), IDS, 120)
    assert batches.distinct_shapes == ((21, 4),)
    assert len(batches) == 2


@pytest.mark.any_backend
def test_text_is_tokenized():
    corpus = ParallelCorpus(["a dog", "a cat", ""], ["ein Hund", "eine Katze", "nichts"])
    tokenizer = SubwordTokenizer.train(corpus.sources + corpus.targets, 25)
    batches = TokenBatches(corpus, tokenizer, 512, shuffle=False)
    inputs, labels, _ = batches[0]
    assert tokenizer.detokenize(inputs["source"]) == corpus.sources
    assert tokenizer.detokenize(inputs["target"]) == corpus.targets
    assert tokenizer.detokenize(labels) == corpus.targets
    assert TokenBatches(list(corpus), tokenizer, 512).num_tokens == batches.num_tokens


@pytest.mark.any_backend
@pytest.mark.parametrize(
    "corpus, message",
    [
        ([], "at least one pair"),
        ("ab", "`corpus` must be a ParallelCorpus or iterable"),
        (["ab", "cd"], r"\(source, target\) pairs; got 'ab' at index 0"),
        ([([4], [5]), ([4], [5], [6])], r"\(source, target\) pairs; .* at index 1"),
        ([([4], [5]), ([], [4, 1009])], r"\[0, 1009\).* got 1009 in pair 1"),
        ([([4], [5]), ([-1], [4])], "got -1 in pair 1"),
        ([([4, 0], [5])], "not the padding 0; got 0 in pair 0"),
        ([([4.5], [5])], "integer ids; got float64"),
        ([([4], [5]), ("ab", "cd")], "integer ids"),
        ([(4, 5)], "sequences of ids; got 4 in pair 0"),
    ],
)
def test_corpus_errors(corpus, message):
    with pytest.raises(ValueError, match=message):
        TokenBatches(corpus, IDS)


@pytest.mark.any_backend
@pytest.mark.parametrize(
    "arguments",
    [
        {"tokens_per_batch": 0},
        {"tokens_per_batch": 100.5},
        {"length_step": 0},
        {"rows_multiple": 0},
        {"rows_multiple": 5000},
        {"max_length": 0},
        {"max_length": 4097},
        {"seed": -1},
        {"too_long": "cut"},
        {"tokenizer": object()},
    ],
)
def test_argument_errors(arguments):
    argument = next(iter(arguments))
    with pytest.raises(ValueError, match=f"`{argument}` must"):
        TokenBatches([([4], [5])], **{"tokenizer": IDS, **arguments})


@pytest.mark.any_backend
def test_epoch_and_start_errors():
    batches = TokenBatches([([4], [5])], IDS)
    with pytest.raises(ValueError, match="`epoch` must"):
        batches.epoch = -1
    for start in (-1, 1):
        with pytest.raises(ValueError, match="`start` must"):
            batches.remainder(0, start)


class Recorded(TokenBatches):
    """Notes which batches a running `fit` asks for."""

    def at(self, epoch, index):
        if self.noted is not None:
            self.noted.append((epoch, index))
        return super().at(epoch, index)

    noted = None


def tiny_model():
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("source", "target")}
    embed = keras.layers.Embedding(IDS.vocabulary_size, 5)
    hidden = keras.layers.Add()([embed(inputs["source"]), embed(inputs["target"])])
    model = keras.Model(inputs, keras.layers.Dense(IDS.vocabulary_size)(hidden))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, weighted_metrics=["accuracy"])
    return model


def test_fit_with_varying_widths_counts_epochs():
    batches = Recorded(random_pairs(61, longest=14), IDS, 128, seed=5)
    assert len(batches.distinct_shapes) > 1
    model = tiny_model()
    batches.noted = []
    history = model.fit(batches, epochs=3, shuffle=False, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert batches.epoch == 3
    every = [(epoch, index) for epoch in range(3) for index in range(len(batches))]
    # Before the first pass Keras looks at a few batches to learn their shapes.
    assert batches.noted[-len(every) :] == every
    fixed = TokenBatches(random_pairs(61, longest=14), IDS, 128, shuffle=False)
    assert np.isfinite(model.evaluate(fixed, verbose=0)).all()


def test_fit_goes_on_in_mid_epoch():
    # Twelve batches of one width, one of another: most remainders begin with two of the same.
    batches = Recorded(pairs_of_lengths([(3, 3)] * 96 + [(20, 20)]), IDS, 32)
    last = len(batches) - 1
    model = tiny_model()
    for start in (3, last):
        remainder = batches.remainder(2, start)
        assert len(remainder) == last + 1 - start
        batches.noted = []
        model.fit(remainder, initial_epoch=2, epochs=3, shuffle=False, verbose=0)
        expected = [(2, index) for index in range(start, last + 1)]
        assert batches.noted[-len(expected) :] == expected
        assert batches.epoch == 0
        assert [batch[1].shape for batch in remainder] == [
            batches.at(2, index)[1].shape for index in range(start, last + 1)
        ]


def test_empty_rows_change_nothing():
    pairs = pairs_of_lengths([(3, 3), (2, 4), (1, 2)])
    model = tiny_model()
    alone = TokenBatches(pairs, IDS, 64, shuffle=False)
    padded = TokenBatches(pairs, IDS, 64, shuffle=False, rows_multiple=5)
    assert (len(alone[0][1]), len(padded[0][1])) == (3, 5)
    inputs, labels, weights = padded[0]
    losses = model.evaluate(inputs, labels, sample_weight=weights, verbose=0, batch_size=5)
    np.testing.assert_allclose(losses, model.evaluate(padded, verbose=0), rtol=1e-6)
    logits = model.predict_on_batch(alone[0][0])
    np.testing.assert_allclose(model.predict_on_batch(inputs)[:3], logits, rtol=1e-6)
