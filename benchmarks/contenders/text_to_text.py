"""What contenders that translate text share: the corpus, the turns and the score."""

import json
from pathlib import Path


class TextToText:
    """A subclass has `translate(texts)`, which returns a list of as many translations.

    Args:
        corpus: path of a JSON file with a list of sources and a list of references.
    """

    def __init__(self, corpus):
        self.sources, self.references = json.loads(Path(corpus).read_text())

    def run(self, repeats, at_once, sentences):
        for _ in range(repeats):
            self.texts = []
            for start in range(0, sentences, at_once):
                self.texts += self.translate(self.sources[start : min(start + at_once, sentences)])

    def facts(self):
        """Returns the score and how it was computed."""
        # Imported when the measurements are done, for some contenders need nothing of it.
        from keras_transformer.evaluation import bleu

        score = bleu(self.texts, self.references[: len(self.texts)])
        return {"bleu": float(score), "signature": score.signature}


class PieceToPiece(TextToText):
    """Text to text by a model of pieces, with the weights and the pieces of a translator.

    Args:
        folder: what `bart_weights.py` wrote. corpus: as above. beam: int, width of the beam.
    """

    def __init__(self, folder, corpus, beam):
        import sentencepiece
        from workloads import TOKENIZER

        super().__init__(corpus)
        self.pieces = sentencepiece.SentencePieceProcessor(str(Path(folder, TOKENIZER)))
        self.beam = beam
