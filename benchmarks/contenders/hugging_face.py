"""Hugging Face's `MarianMTModel` with random weights, and what it makes of a translator's."""

import numpy as np
import torch
from torch import nn
from transformers import AutoModelForSeq2SeqLM, MarianConfig, MarianMTModel
from workloads import END, LENGTH_PENALTY, PAD, START, Size

from contenders.text_to_text import PieceToPiece
from contenders.torch_training import TorchTraining


def marian_config(size, dropout="everywhere", **special_ids):
    """Returns the `MarianConfig` of a size."""
    inner_dropout = 0.1 if dropout == "everywhere" else 0.0
    return MarianConfig(
        vocab_size=size.vocabulary_size,
        decoder_vocab_size=size.vocabulary_size,
        d_model=size.model_dim,
        encoder_layers=size.num_layers,
        decoder_layers=size.num_layers,
        encoder_ffn_dim=size.intermediate_dim,
        decoder_ffn_dim=size.intermediate_dim,
        encoder_attention_heads=size.num_heads,
        decoder_attention_heads=size.num_heads,
        dropout=0.1,
        attention_dropout=inner_dropout,
        activation_dropout=inner_dropout,
        activation_function="relu",
        max_position_embeddings=512,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        forced_eos_token_id=None,
        **{
            "pad_token_id": PAD,
            "bos_token_id": START,
            "eos_token_id": END,
            "decoder_start_token_id": START,
            **special_ids,
        },
    )


class Training(TorchTraining):
    """Trains it with the loop that all torch libraries share."""

    def __init__(self, size, dtype, dropout, **options):
        super().__init__(lambda size: _Translation(size, dropout), size, dtype, **options)


class _Translation(nn.Module):
    def __init__(self, size, dropout):
        super().__init__()
        self.marian = MarianMTModel(marian_config(size, dropout))

    def forward(self, source, target):
        return self.marian(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            decoder_input_ids=target,
            decoder_attention_mask=(target != PAD).long(),
            use_cache=False,
        ).logits


class Decoding:
    """`generate`, with as many new tokens at least as at most."""

    def __init__(self, size, source_tokens, target_tokens):
        size = Size(**size)
        torch.manual_seed(0)
        self.model = MarianMTModel(marian_config(size)).eval()
        self.target_tokens = target_tokens
        words = np.random.default_rng(0).integers(
            END + 1, size.vocabulary_size, (32, source_tokens)
        )
        self.source = torch.from_numpy(words)

    def run(self, repeats, sentences, beam):
        source = self.source[:sentences]
        for _ in range(repeats):
            with torch.inference_mode():
                tokens = self.model.generate(
                    input_ids=source,
                    attention_mask=torch.ones_like(source),
                    min_new_tokens=self.target_tokens,
                    max_new_tokens=self.target_tokens,
                    num_beams=beam,
                    do_sample=False,
                )
        if tokens.shape != (sentences, self.target_tokens + 1):
            raise ValueError(f"expected {self.target_tokens} tokens; got {tuple(tokens.shape)}.")

    def facts(self):
        return {"parameters": self.model.num_parameters()}


class Translation(PieceToPiece):
    """`generate` on pieces of text, in batches of sentences of about one length."""

    def __init__(self, folder, corpus, beam):
        super().__init__(folder, corpus, beam)
        self.model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()

    def translate(self, texts):
        end, pad = self.model.config.eos_token_id, self.model.config.pad_token_id
        rows = [[*row, end] for row in self.pieces.encode(texts)]
        order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
        found = [""] * len(rows)
        for first in range(0, len(rows), 32):
            numbers = order[first : first + 32]
            width = max(len(rows[number]) for number in numbers)
            source = torch.tensor([rows[n] + [pad] * (width - len(rows[n])) for n in numbers])
            with torch.inference_mode():
                tokens = self.model.generate(
                    input_ids=source,
                    attention_mask=(source != pad).long(),
                    num_beams=self.beam,
                    length_penalty=LENGTH_PENALTY,
                    max_new_tokens=width + 50,
                    do_sample=False,
                )
            for number, row in zip(numbers, tokens.tolist(), strict=True):
                found[number] = self.pieces.decode([each for each in row if each not in (end, pad)])
        return found
