"""A translator as a SavedModel: string tensor in, string tensor out, the whole search inside."""

from keras_transformer.serving.saved_model import export_saved_model

__all__ = ["export_saved_model"]
