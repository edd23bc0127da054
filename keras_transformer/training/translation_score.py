"""BLEU on a validation set, while training."""

import keras

from keras_transformer.arguments import check_positive
from keras_transformer.evaluation import bleu


class TranslationScore(keras.callbacks.Callback):
    """Translates a validation set after an epoch and puts its BLEU in the logs as "val_bleu".

    Put it before callbacks that read it, such as `ProgressLine` or `EarlyStopping`.

    Args:
        translate: function from a list of sentences to a list of translations, such as
            `Translator(model, tokenizer, GreedySearch()).translate`.
        sources, references: lists of str of equal length.
        every: int, epochs between two scores; the last epoch is always scored.

    Attributes:
        last: the last `evaluation.Score`, with sacrebleu's signature, or None.
        translations: list of str, what was scored last.

    >>> score = TranslationScore(lambda lines: lines, ["Hallo."], ["Hallo."])
    """

    def __init__(self, translate, sources, references, every=1):
        super().__init__()
        if len(sources) != len(references) or not len(sources):
            raise ValueError(
                "`sources` and `references` must be as many, one or more; got "
                f"{len(sources)} and {len(references)}. Pass aligned lists."
            )
        check_positive(every=every)
        self.translate = translate
        self.sources = list(sources)
        self.references = list(references)
        self.every = every
        self.last = None
        self.translations = []

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.every and epoch + 1 != self.params["epochs"]:
            return
        self.translations = self.translate(self.sources)
        self.last = bleu(self.translations, self.references)
        if logs is not None:
            logs["val_bleu"] = self.last.value
