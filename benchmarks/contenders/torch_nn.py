"""`torch.nn.Transformer` with the embedding, positions and tied head left to its user."""

import math

import torch
from torch import nn
from workloads import PAD

from contenders.torch_training import TorchTraining


class Training(TorchTraining):
    """Trains it. Its one dropout rate acts everywhere, whatever is asked for."""

    def __init__(self, size, dtype, dropout, **options):
        super().__init__(_Translation, size, dtype, **options)


class _Translation(nn.Module):
    def __init__(self, size):
        super().__init__()
        d, n = size.model_dim, size.length
        self.embedding = nn.Embedding(size.vocabulary_size, d, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=d**-0.5)
        self.transformer = nn.Transformer(
            d,
            size.num_heads,
            size.num_layers,
            size.num_layers,
            size.intermediate_dim,
            dropout=0.1,
            batch_first=True,
        )
        self.dropout = nn.Dropout(0.1)
        angles = torch.arange(n)[:, None] * 10_000.0 ** (-torch.arange(0, d, 2) / d)
        waves = torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(n, d)
        self.register_buffer("positions", waves)
        self.register_buffer("future", torch.ones(n, n, dtype=torch.bool).triu(1))

    def forward(self, source, target):
        source_padding, target_padding = source == PAD, target == PAD
        hidden = self.transformer(
            self._embed(source),
            self._embed(target),
            tgt_mask=self.future,
            src_key_padding_mask=source_padding,
            tgt_key_padding_mask=target_padding,
            memory_key_padding_mask=source_padding,
        )
        return hidden @ self.embedding.weight.T

    def _embed(self, tokens):
        scale = math.sqrt(self.embedding.embedding_dim)
        return self.dropout(self.embedding(tokens) * scale + self.positions)
