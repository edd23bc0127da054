"""A checkpoint's `config.json`, read so that no setting is passed over."""

import json
from pathlib import Path

from keras_transformer.arguments import is_integer

CONFIG_FILE = "config.json"

# Settings that shape neither the network nor its numbers: bookkeeping, training, generation.
INERT = frozenset(
    """
    _name_or_path _num_labels add_bias_logits architectures attn_implementation
    begin_suppress_tokens bos_token_id chunk_size_feed_forward classif_dropout classifier_dropout
    cls_token_id decoder_layerdrop diversity_penalty do_sample dtype early_stopping
    encoder_layerdrop encoder_no_repeat_ngram_size exponential_decay_length_penalty finetuning_task
    forced_bos_token_id forced_eos_token_id gradient_checkpointing id2label init_std
    initializer_factor initializer_range is_encoder_decoder label2id length_penalty max_length
    min_length model_type n_ctx no_repeat_ngram_size num_beam_groups num_beams
    num_return_sequences output_attentions output_hidden_states output_past output_scores
    prefix problem_type remove_invalid_values repetition_penalty return_dict
    return_dict_in_generate sep_token_id suppress_tokens task_specific_params temperature
    tie_encoder_decoder tokenizer_class top_k top_p torch_dtype torchscript transformers_version
    typical_p use_bfloat16 use_cache
    """.split()
)

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "relu2": "squared_relu",
    "relu6": "relu6",
    "silu": "silu",
    "swish": "silu",
    "mish": "mish",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "linear": "linear",
}


class Settings:
    """The settings of a `config.json`; each that is asked for is known, and the others are errors.

    Args:
        values: dict.
    """

    def __init__(self, values):
        self._values = dict(values)
        self._known = set(INERT)

    @classmethod
    def of_folder(cls, folder):
        """Reads a folder's `config.json`."""
        path = Path(folder) / CONFIG_FILE
        if not path.is_file():
            raise ValueError(
                f"`folder` must hold {CONFIG_FILE}; {folder} does not. Is it a checkpoint's folder?"
            )
        try:
            values = json.loads(path.read_bytes())
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is damaged: {error}. Download it again.") from error
        if not isinstance(values, dict):
            raise ValueError(f"{path} must hold an object; got {values!r:.80}. Download it again.")
        return cls(values)

    def get(self, name, default=None):
        """Returns a setting, `default` where it is absent."""
        self._known.add(name)
        return self._values.get(name, default)

    def needed(self, name):
        """Returns a setting that must be there."""
        if name not in self._values:
            raise ValueError(
                f"{CONFIG_FILE} lacks the setting {name!r}. Is it the checkpoint's own?"
            )
        return self.get(name)

    def require(self, name, *allowed):
        """Raises ValueError where a setting is not one of those; the first is the default."""
        value = self.get(name, allowed[0])
        if value not in allowed:
            raise ValueError(
                f"{CONFIG_FILE}: the setting {name!r} must be one of {list(allowed)}; got "
                f"{value!r}. This library's blocks cannot do that."
            )

    def even(self, name, default):
        """Returns a number that must be even."""
        value = self.get(name, default)
        if not is_integer(value) or value < 2 or value % 2:
            raise ValueError(
                f"{CONFIG_FILE}: the setting {name!r} must be even, 2 or more; got {value!r}. This "
                "library's blocks cannot do that."
            )
        return value

    def activation(self, name, default):
        """Returns this library's name of an activation."""
        value = self.get(name, default)
        if value not in ACTIVATIONS:
            raise ValueError(
                f"{CONFIG_FILE}: the setting {name!r} must be one of {sorted(ACTIVATIONS)}; got "
                f"{value!r}."
            )
        return ACTIVATIONS[value]

    def one_id(self, name, default):
        """Returns a special id, of which there may be one."""
        first, *others = self.ids(name, default)
        if others:
            raise ValueError(
                f"{CONFIG_FILE}: the setting {name!r} must be one id; got {[first, *others]}. This "
                "family's models have one here."
            )
        return first

    def ids(self, name, default):
        """Returns the special ids of a name, one at least."""
        value = self.get(name, default)
        value = default if value is None or value == [] else value
        return value if isinstance(value, list) else [value]

    def suppressed_ids(self):
        """Returns the ids that generation may not pick."""
        words = self.get("bad_words_ids") or []
        if any(len(word) != 1 for word in words):
            raise ValueError(
                f"{CONFIG_FILE}: the setting 'bad_words_ids' must hold words of one id; got "
                f"{words}. A search here suppresses single ids only."
            )
        return [word[0] for word in words]

    def ignore(self, *names):
        """Marks settings of parts that this library does not build."""
        self._known.update(names)

    def finish(self):
        """Raises ValueError naming the settings that nobody asked for."""
        unknown = sorted(set(self._values) - self._known)
        if unknown:
            raise ValueError(
                f"{CONFIG_FILE} has settings that this library does not know: {unknown}. They may "
                "change what the model computes, so it is not loaded."
            )


def published_ids(model):
    """Returns a causal model's end tokens as a config has them: one id, or a list of several."""
    ends = [model.end_id, *model.other_end_ids]
    return ends if len(ends) > 1 else model.end_id


def published_name(activation):
    """Returns Hugging Face's name of one of this library's activations."""
    for name, ours in ACTIVATIONS.items():
        if ours == activation:
            return name
    raise ValueError(
        f"`activation` must be one of {sorted(set(ACTIVATIONS.values()))} to be saved in Hugging "
        f"Face's format; got {activation!r}."
    )
