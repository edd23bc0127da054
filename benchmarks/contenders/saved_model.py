"""The exported SavedModel, served by TensorFlow without Keras."""

import json
from pathlib import Path

import tensorflow as tf
import tensorflow_text  # noqa: F401  (makes the ops of the graph known)


class Translation:
    """The signature `serving_default` of a SavedModel.

    Args:
        folder: of the SavedModel.
        corpus: path of a JSON file with a list of sources and a list of references.
    """

    def __init__(self, folder, corpus):
        self.served = tf.saved_model.load(folder)
        self.translate = self.served.signatures["serving_default"]
        self.sources, self.references = json.loads(Path(corpus).read_text())

    def run(self, repeats, at_once, sentences):
        for _ in range(repeats):
            found = []
            for start in range(0, sentences, at_once):
                text = tf.constant(self.sources[start : min(start + at_once, sentences)])
                found += self.translate(text=text)["translation"].numpy().tolist()
        self.texts = [text.decode() for text in found]

    def facts(self):
        # Imported here, when the measurements are done, for the graph needs nothing of it.
        from contenders.ours import bleu_facts

        return bleu_facts(self.texts, self.references)
