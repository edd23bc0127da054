"""JoeyNMT's encoder, decoder and embedding."""

from joeynmt.decoders import TransformerDecoder
from joeynmt.embeddings import Embeddings
from joeynmt.encoders import TransformerEncoder
from torch import nn
from workloads import PAD

from contenders.torch_training import TorchTraining


class Training(TorchTraining):
    """Trains them with the loop that all torch libraries share; dropout acts everywhere."""

    def __init__(self, size, dtype, dropout, **options):
        super().__init__(_Translation, size, dtype, **options)


class _Translation(nn.Module):
    def __init__(self, size):
        super().__init__()
        options = {
            "hidden_size": size.model_dim,
            "ff_size": size.intermediate_dim,
            "num_layers": size.num_layers,
            "num_heads": size.num_heads,
            "dropout": 0.1,
            "emb_dropout": 0.1,
        }
        self.embedding = Embeddings(
            size.model_dim, scale=True, vocab_size=size.vocabulary_size, padding_idx=PAD
        )
        self.encoder = TransformerEncoder(**options)
        self.decoder = TransformerDecoder(vocab_size=size.vocabulary_size, **options)
        self.decoder.output_layer.weight = self.embedding.lut.weight

    def forward(self, source, target):
        source_mask, target_mask = (source != PAD)[:, None], (target != PAD)[:, None]
        encoded, state, *_ = self.encoder(
            self.embedding(source), (source != PAD).sum(-1), source_mask
        )
        return self.decoder(
            trg_embed=self.embedding(target),
            encoder_output=encoded,
            encoder_hidden=state,
            src_mask=source_mask,
            trg_mask=target_mask,
            unroll_steps=None,
            hidden=None,
        )[0]
