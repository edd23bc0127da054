"""Masked language model: an encoder that is asked for the tokens it was not shown."""

import keras

from keras_transformer.layers.transformer_block import make_normalization
from keras_transformer.models.resumable import paths_under
from keras_transformer.models.sequence_model import SequenceModel
from keras_transformer.models.transformer_encoder import TransformerEncoder
from keras_transformer.ops.activations import get_activation


@keras.saving.register_keras_serializable(package="keras_transformer")
class MaskedLanguageModel(SequenceModel):
    """An encoder with BERT's head for masked tokens.

        logits = norm(activation(encoder(tokens) W + b)) E^T + head_bias

    E is the encoder's own embedding, and `encoder` stays a model by itself: pre-train this model,
    then put another head on `model.encoder`. `text.mask_tokens` makes inputs, labels and weights.

    Args:
        encoder: `TransformerEncoder` without pooling. Its `tie_weights` and `head_bias` say whether
            the head's matrix is the embedding's and whether it has a bias (BERT: both).
        activation: name or function, between encoder and head; "gelu" as in BERT.

    Call arguments:
        inputs: as the encoder's: {"tokens": int32 (B, T), ...}.

    Returns:
        Logits (B, T, V) of the token at each place.

    Raises:
        ValueError: if `encoder` is not a `TransformerEncoder` without pooling.

    Example:

    ```python
    encoder = TransformerEncoder(8000, num_layers=4, model_dim=256, num_heads=4,
                                 intermediate_dim=1024, head_bias=True)
    model = MaskedLanguageModel(encoder)
    model.compile("adam", loss=SequenceCrossentropy(label_smoothing=0.0))
    model.fit({"tokens": masked.tokens}, masked.labels, sample_weight=masked.weights)
    ```

    Reference: Devlin et al. 2019, section 3.1.
    """

    def __init__(self, encoder, activation="gelu", name=None):
        if not isinstance(encoder, TransformerEncoder) or encoder.pooling is not None:
            raise ValueError(
                "`encoder` must be a `TransformerEncoder` with pooling=None, a vector a token; got "
                f"{encoder!r} with pooling={getattr(encoder, 'pooling', None)!r}."
            )
        dtype = encoder.dtype_policy
        block = encoder.block_options
        dense = keras.layers.Dense(
            encoder.model_dim, get_activation(activation), dtype=dtype, name="head_dense"
        )
        norm = make_normalization(
            block.get("normalization", "layer"),
            block.get("epsilon", 1e-6),
            dtype=dtype,
            name="head_norm",
        )
        inputs = encoder.new_inputs()
        with paths_under(self, name) as name:
            hidden = norm(dense(encoder(inputs)))
            logits = encoder.embedding(hidden, reverse=True)
        super().__init__(inputs=inputs, outputs=logits, name=name)
        self.encoder = encoder
        self.activation = dense.activation

    @classmethod
    def from_preset(cls, preset, /, name=None, **arguments):
        """Returns the untrained model over the encoder of that name, such as "bert-base".

        Args:
            preset: see `models.families.ENCODER_PRESETS`.
            name: str, of the model.
            **arguments: of the encoder, in place of the preset's.
        """
        arguments = {"head_bias": True, **arguments, "pooling": None}
        return cls(TransformerEncoder.from_preset(preset, **arguments), name=name)

    def get_config(self):
        return {
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "activation": keras.activations.serialize(self.activation),
            "name": self.name,
            **self.trainable_config(),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        encoder = keras.saving.deserialize_keras_object(config["encoder"], custom_objects)
        return super().from_config({**config, "encoder": encoder}, custom_objects)
