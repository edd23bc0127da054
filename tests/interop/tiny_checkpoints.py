"""Random checkpoints of Hugging Face's own models, tiny, with unusual settings."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def randomized(model, seed=0):
    """The model with every weight random, so that each counts; in evaluation mode."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator) * 0.3)
    return model.eval()


def talkative_marian():
    """Outputs of several tokens: a tied head would repeat the token that the residual carries."""
    torch.manual_seed(3)
    model = marian(decoder_layers=2)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "decoder" in name and (".fc1.weight" in name or ".fc2.weight" in name):
                weight.mul_(4.0)
            if "encoder_attn" in name and weight.ndim == 2:
                weight.mul_(3.0)
            if name.endswith(".bias"):
                weight.mul_(0.3)
    return model


def talkative_t5(seed, **changes):
    """Likewise: what is embedded counts less, the layers and the last normalization more."""
    torch.manual_seed(seed)
    model = t5(num_decoder_layers=2, **changes)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "shared" in name:
                weight.mul_(0.1)
            elif weight.ndim == 2 and "lm_head" not in name:
                weight.mul_(2.0)
        model.decoder.final_layer_norm.weight.mul_(10.0)
    return model


def gpt2(**changes):
    settings = {
        "vocab_size": 31,
        "n_positions": 23,
        "n_embd": 15,
        "n_layer": 2,
        "n_head": 3,
        "n_inner": 19,
        "activation_function": "relu",
        "layer_norm_epsilon": 0.03,
        "scale_attn_weights": False,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "pad_token_id": 0,
    }
    config = transformers.GPT2Config(**{**settings, **changes})
    return randomized(transformers.GPT2LMHeadModel(config))


def llama(**changes):
    settings = {
        "vocab_size": 31,
        "hidden_size": 18,
        "intermediate_size": 19,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 4,
        "rms_norm_eps": 0.02,
        "rope_parameters": {"rope_type": "default", "rope_theta": 77.0},
        "hidden_act": "gelu_new",
        "bos_token_id": 2,
        "eos_token_id": 3,
        "pad_token_id": 0,
    }
    config = transformers.LlamaConfig(**{**settings, **changes})
    return randomized(transformers.LlamaForCausalLM(config))


def bert(kind="BertModel", **changes):
    settings = {
        "vocab_size": 31,
        "hidden_size": 15,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 19,
        "hidden_act": "gelu_new",
        "max_position_embeddings": 13,
        "type_vocab_size": 3,
        "layer_norm_eps": 0.03,
        "pad_token_id": 0,
    }
    config = transformers.BertConfig(**{**settings, **changes})
    return randomized(getattr(transformers, kind)(config))


def longformer(kind="LongformerModel", **changes):
    settings = {
        "vocab_size": 31,
        "hidden_size": 15,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 19,
        "hidden_act": "gelu_new",
        "max_position_embeddings": 17,
        "type_vocab_size": 1,
        "layer_norm_eps": 0.03,
        "pad_token_id": 1,
        "attention_window": [4, 8],
    }
    config = transformers.LongformerConfig(**{**settings, **changes})
    return randomized(getattr(transformers, kind)(config))


def marian(**changes):
    settings = {
        "vocab_size": 31,
        "d_model": 18,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_attention_heads": 3,
        "decoder_attention_heads": 3,
        "encoder_ffn_dim": 19,
        "decoder_ffn_dim": 19,
        "activation_function": "swish",
        "scale_embedding": True,
        "max_position_embeddings": 29,
        "pad_token_id": 30,
        "decoder_start_token_id": 30,
        "eos_token_id": 0,
        "forced_eos_token_id": None,
    }
    config = transformers.MarianConfig(**{**settings, **changes})
    model = transformers.MarianMTModel(config)
    sinusoids = [model.model.encoder.embed_positions, model.model.decoder.embed_positions]
    kept = [module.weight.detach().clone() for module in sinusoids]
    randomized(model)
    with torch.no_grad():
        for module, weight in zip(sinusoids, kept, strict=True):
            module.weight.copy_(weight)
        model.final_logits_bias.copy_(torch.linspace(-1.0, 1.0, model.final_logits_bias.numel()))
    return model


def t5(untied=False, **changes):
    settings = {
        "vocab_size": 31,
        "d_model": 18,
        "d_kv": 5,
        "d_ff": 19,
        "num_layers": 2,
        "num_decoder_layers": 1,
        "num_heads": 3,
        "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 11,
        "layer_norm_epsilon": 0.02,
        "pad_token_id": 0,
        "decoder_start_token_id": 0,
        "eos_token_id": 1,
        "tie_word_embeddings": not untied,
    }
    config = transformers.T5Config(**{**settings, **changes})
    model = transformers.T5ForConditionalGeneration(config)
    if untied:
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    return randomized(model)


def vit(kind="ViTForImageClassification", **changes):
    settings = {
        "hidden_size": 15,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 19,
        "hidden_act": "relu",
        "layer_norm_eps": 0.03,
        "image_size": 10,
        "patch_size": 5,
        "num_channels": 2,
    }
    config = transformers.ViTConfig(**{**settings, **changes}, num_labels=7)
    return randomized(getattr(transformers, kind)(config))


MODELS = {
    "gpt2": gpt2,
    "gpt2-untied": lambda: gpt2(
        tie_word_embeddings=False,
        scale_attn_weights=True,
        n_inner=None,
        activation_function="gelu_new",
    ),
    "llama": llama,
    "llama-biases-tied": lambda: llama(
        attention_bias=True,
        tie_word_embeddings=True,
        hidden_act="silu",
        rope_parameters={"rope_type": "linear", "factor": 3.0, "rope_theta": 77.0},
    ),
    "llama-feed-forward-biases-yarn": lambda: llama(
        mlp_bias=True,
        head_dim=8,
        max_position_embeddings=64,
        rope_parameters={
            "rope_type": "yarn",
            "factor": 4.0,
            "rope_theta": 77.0,
            "original_max_position_embeddings": 16,
        },
    ),
    "llama-3": lambda: llama(
        head_dim=8,
        max_position_embeddings=64,
        rope_parameters={
            "rope_type": "llama3",
            "factor": 4.0,
            "rope_theta": 77.0,
            "original_max_position_embeddings": 16,
            "high_freq_factor": 3.0,
            "low_freq_factor": 0.5,
        },
    ),
    "bert": bert,
    "llama-ends": lambda: llama(eos_token_id=[3, 9, 14]),
    "bert-masked-untied": lambda: bert("BertForMaskedLM", tie_word_embeddings=False),
    "bert-masked": lambda: bert("BertForMaskedLM", hidden_act="relu"),
    "bert-pre-training": lambda: bert("BertForPreTraining"),
    "longformer": longformer,
    "longformer-masked": lambda: longformer(
        "LongformerForMaskedLM", attention_window=4, type_vocab_size=3, hidden_act="relu"
    ),
    "marian": marian,
    "marian-odd-width": lambda: marian(
        d_model=15, scale_embedding=False, activation_function="relu"
    ),
    "t5": t5,
    "t5-v1.1": lambda: t5(untied=True, feed_forward_proj="gated-gelu"),
    "vit": vit,
    "vit-pooler-oblong": lambda: vit("ViTModel", image_size=[10, 15], hidden_act="gelu"),
    "t5-gated-silu": lambda: t5(feed_forward_proj="gated-silu"),
}
TALKATIVE = {
    "marian": talkative_marian,
    "t5": lambda: talkative_t5(2),
    "t5-v1.1": lambda: talkative_t5(3, untied=True, feed_forward_proj="gated-gelu"),
}
_FOLDERS = {}


def checkpoint(name, factory, models=MODELS):
    """Returns (folder, Hugging Face's model); made once a run."""
    make = models[name]
    if make not in _FOLDERS:
        torch.manual_seed(2)
        model = make()
        folder = factory.mktemp(name)
        model.save_pretrained(folder)
        _FOLDERS[make] = folder, model
    return _FOLDERS[make]
