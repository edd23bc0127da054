"""The exported SavedModel, served by TensorFlow without Keras."""

import tensorflow as tf
import tensorflow_text  # noqa: F401  (makes the ops of the graph known)

from contenders.text_to_text import TextToText


class Translation(TextToText):
    """The signature `serving_default` of a SavedModel."""

    def __init__(self, folder, corpus):
        super().__init__(corpus)
        self.served = tf.saved_model.load(folder)
        self.signature = self.served.signatures["serving_default"]

    def translate(self, texts):
        found = self.signature(text=tf.constant(texts))["translation"].numpy()
        return [text.decode() for text in found]
