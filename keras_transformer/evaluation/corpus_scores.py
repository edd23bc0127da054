"""BLEU and chrF of whole corpora, computed by sacrebleu."""

from keras_transformer.arguments import check_from_zero
from keras_transformer.evaluation.score import Score


def bleu(hypotheses, references, *, lowercase=False, tokenize="13a"):
    """Scores translations by BLEU (Papineni et al. 2002), as sacrebleu does.

    By default on raw, cased, detokenized text with the tokenizer of WMT ("13a"): the number to
    compare with published ones. A lowercased or otherwise tokenized score carries that in its name.

    Args:
        hypotheses: list of str, the translations.
        references: list with one entry a hypothesis, in the same order: a str, or a list of str for
            several references. sacrebleu's own layout, one list a set of references, is refused
            where the counts tell it apart.
        lowercase: bool, ignore case.
        tokenize: str, name of a sacrebleu tokenizer: "13a", "none", "intl", "char", "zh", ...

    Returns:
        A `Score`.

    Raises:
        ValueError: if a list is empty or something else than strings, if the counts differ, or for
            an unknown tokenizer.
        ImportError: if sacrebleu is not installed.

    Example:

    >>> from keras_transformer.evaluation import bleu
    >>> score = bleu(["The cat sat on the mat."], ["The cat sat on a mat."])
    >>> round(float(score), 1)
    48.9

    Reference: "A Call for Clarity in Reporting BLEU Scores" (Post 2018, arXiv 1804.08771).
    """
    metrics = _import_metrics()
    if tokenize not in metrics.BLEU.TOKENIZERS:
        raise ValueError(
            f"`tokenize` must be one of {sorted(metrics.BLEU.TOKENIZERS)}; got {tokenize!r}."
        )
    choices = ["lowercased"] * lowercase
    if tokenize != "13a":
        choices.append(f"tokenize={tokenize}")
    metric = metrics.BLEU(lowercase=lowercase, tokenize=tokenize)
    return _score(metric, "BLEU", choices, hypotheses, references)


def chrf(hypotheses, references, *, lowercase=False, word_order=0):
    """Scores translations by chrF (Popović 2015), the F-score of character n-grams.

    Args:
        hypotheses: list of str, the translations.
        references: one entry a hypothesis, as for `bleu`.
        lowercase: bool, ignore case.
        word_order: int, longest word n-gram that counts too: 0 for chrF2, 2 for chrF2++.

    Returns:
        A `Score`.

    Raises:
        ValueError: if a list is empty or something else than strings, or if the counts differ.
        ImportError: if sacrebleu is not installed.

    Reference: "chrF: character n-gram F-score for automatic MT evaluation" (W15-3049).
    """
    metrics = _import_metrics()
    check_from_zero(word_order=word_order)
    metric = metrics.CHRF(lowercase=lowercase, word_order=word_order)
    return _score(
        metric, "chrF2" + "+" * word_order, ["lowercased"] * lowercase, hypotheses, references
    )


def _import_metrics():
    try:
        from sacrebleu import metrics
    except ImportError as error:
        raise ImportError(
            "scores need sacrebleu: pip install keras-transformer-layers[scores]"
        ) from error
    return metrics


def _score(metric, name, choices, hypotheses, references):
    hypotheses = _strings("hypotheses", hypotheses)
    references = _references(references, len(hypotheses))
    # sacrebleu takes one list a set of references, with None where a sentence has fewer.
    most = max(map(len, references))
    sets = [[row[k] if k < len(row) else None for row in references] for k in range(most)]
    value = metric.corpus_score(hypotheses, sets).score
    if choices:
        name = f"{name} ({', '.join(choices)})"
    return Score(float(value), str(metric.get_signature()), name)


def _strings(argument, sentences):
    if isinstance(sentences, str) or not isinstance(sentences, list | tuple):
        raise ValueError(f"`{argument}` must be a list of strings; got {sentences!r:.80}.")
    if not sentences:
        raise ValueError(f"`{argument}` must not be empty.")
    for number, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise ValueError(
                f"`{argument}` must hold strings; got {sentence!r:.80} at index {number}."
            )
    return list(sentences)


def _references(references, count):
    """Returns one list of references for each hypothesis."""
    if isinstance(references, str) or not isinstance(references, list | tuple):
        raise ValueError(
            f"`references` must be a list with one entry a hypothesis; got {references!r:.80}."
        )
    if len(references) != count:
        raise ValueError(
            "`references` must have one entry a hypothesis, a string or a list of strings; got "
            f"{len(references)} entries for {count} hypotheses. Sets of references, as sacrebleu "
            "takes them, must be turned round: list(zip(*sets))."
        )
    return [
        [entry] if isinstance(entry, str) else _strings(f"references[{number}]", entry)
        for number, entry in enumerate(references)
    ]
