"""CTranslate2, with the random weights of a Marian model.

The conversion runs in a process of its own (`python -m contenders.ctranslate2 SIZE FOLDER TYPE`),
so that the memory measured is CTranslate2's alone, without torch and transformers.
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from workloads import END, Size

_UNKNOWN = 1


class Decoding:
    """`Translator.translate_batch`, with as many tokens at least as at most."""

    def __init__(self, size, source_tokens, target_tokens, compute_type):
        import ctranslate2

        self.target_tokens = target_tokens
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", __name__, json.dumps(size), folder, compute_type]
            subprocess.run(command, check=True)
            self.translator = ctranslate2.Translator(
                folder,
                device="cpu",
                compute_type=compute_type,
                inter_threads=1,
                intra_threads=os.cpu_count(),
            )
        words = np.random.default_rng(0).integers(
            END + 1, size["vocabulary_size"] - 1, (32, source_tokens)
        )
        self.source = [[_piece(word) for word in row] for row in words]

    def run(self, repeats, sentences, beam):
        for _ in range(repeats):
            found = self.translator.translate_batch(
                self.source[:sentences],
                beam_size=beam,
                min_decoding_length=self.target_tokens,
                max_decoding_length=self.target_tokens,
            )
        lengths = {len(each.hypotheses[0]) for each in found}
        if lengths != {self.target_tokens}:
            raise ValueError(f"expected {self.target_tokens} tokens; got {lengths}.")

    def facts(self):
        return {}


def convert(size, folder, compute_type):
    """Writes a Marian model with random weights as CTranslate2 reads it."""
    import torch
    from ctranslate2.converters.transformers import MarianMTLoader
    from transformers import MarianMTModel

    from contenders.hugging_face import marian_config

    torch.manual_seed(0)
    # The loader wants a Marian vocabulary: end, unknown, and the padding, which starts the target.
    padding = size.vocabulary_size - 1
    config = marian_config(
        size,
        pad_token_id=padding,
        decoder_start_token_id=padding,
        bos_token_id=0,
        eos_token_id=0,
    )
    with torch.no_grad():
        specification = MarianMTLoader()(MarianMTModel(config).eval(), _Vocabulary(padding))
    specification.validate()
    specification.optimize(quantization=None if compute_type == "float32" else compute_type)
    specification.save(folder)


class _Vocabulary:
    """What the converter asks of a tokenizer."""

    bos_token, eos_token, unk_token = "<s>", "</s>", "<unk>"

    def __init__(self, padding):
        self.pieces = [_piece(number) for number in range(padding + 1)]
        self.pieces[0] = self.eos_token
        self.pieces[_UNKNOWN] = self.unk_token
        self.pieces[padding] = "<pad>"

    def get_vocab(self):
        return {piece: number for number, piece in enumerate(self.pieces)}

    def convert_ids_to_tokens(self, number):
        return self.pieces[number]


def _piece(number):
    return f"piece{number}"


if __name__ == "__main__":
    convert(Size(**json.loads(sys.argv[1])), sys.argv[2], sys.argv[3])
