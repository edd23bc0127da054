"""What each head looks at, and how a run went: numbers and pictures."""

from keras_transformer.visualization.attention_picture import plot_attention
from keras_transformer.visualization.attention_weights import attention_weights
from keras_transformer.visualization.history_picture import plot_history

__all__ = ["attention_weights", "plot_attention", "plot_history"]
