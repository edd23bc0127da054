"""CTranslate2, with the random weights of a Marian model or those of a translator.

The conversion runs in a process of its own (`python -m contenders.ctranslate2 ...`), so that the
memory measured is CTranslate2's alone, without torch and transformers.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from workloads import END, LENGTH_PENALTY, TOKENIZER, Size

from contenders.text_to_text import PieceToPiece

_UNKNOWN = 1


class Decoding:
    """`Translator.translate_batch`, with as many tokens at least as at most."""

    def __init__(self, size, source_tokens, target_tokens, compute_type):
        self.target_tokens = target_tokens
        with tempfile.TemporaryDirectory() as folder:
            _convert_elsewhere("random", json.dumps(size), folder, compute_type)
            self.translator = _translator(folder, compute_type)
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


class Translation(PieceToPiece):
    """`Translator.translate_batch` on pieces of text."""

    def __init__(self, folder, corpus, beam):
        super().__init__(folder, corpus, beam)
        settings = json.loads(Path(folder, "config.json").read_text())
        self.end = self.pieces.id_to_piece(settings["eos_token_id"])
        with tempfile.TemporaryDirectory() as converted:
            _convert_elsewhere("translator", folder, converted)
            self.translator = _translator(converted, "float32")

    def translate(self, texts):
        rows = [[*row, self.end] for row in self.pieces.encode(texts, out_type=str)]
        found = self.translator.translate_batch(
            rows, beam_size=self.beam, length_penalty=LENGTH_PENALTY, max_batch_size=32
        )
        return self.pieces.decode([each.hypotheses[0] for each in found])


def _convert_elsewhere(*arguments):
    subprocess.run([sys.executable, "-m", __name__, *arguments], check=True)


def _translator(folder, compute_type):
    import ctranslate2

    return ctranslate2.Translator(
        folder,
        device="cpu",
        compute_type=compute_type,
        inter_threads=1,
        intra_threads=os.cpu_count(),
    )


def convert_translator(checkpoint, folder):
    """Writes a translator's weights, in Hugging Face's format, as CTranslate2 reads them."""
    import sentencepiece
    import torch
    from ctranslate2.converters.transformers import BartLoader
    from transformers import AutoModelForSeq2SeqLM

    class Loader(BartLoader):
        """Marian's and Pegasus's in one, for a target that starts from a token of its own."""

        architecture_name = "translator"

        def get_model_spec(self, model):
            model.config.normalize_before = model.config.model_type == "pegasus"
            model.config.normalize_embedding = False
            return super().get_model_spec(model)

    pieces = sentencepiece.SentencePieceProcessor(str(Path(checkpoint, TOKENIZER)))
    model = AutoModelForSeq2SeqLM.from_pretrained(checkpoint).eval()
    names = [pieces.id_to_piece(number) for number in range(model.config.vocab_size)]
    special = [model.config.decoder_start_token_id, model.config.eos_token_id, pieces.unk_id()]
    with torch.no_grad():
        specification = Loader()(model, _Vocabulary(names, *(names[each] for each in special)))
    specification.validate()
    specification.optimize()
    specification.save(folder)


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
    pieces = [_piece(number) for number in range(size.vocabulary_size)]
    pieces[0], pieces[_UNKNOWN], pieces[padding] = "</s>", "<unk>", "<pad>"
    with torch.no_grad():
        specification = MarianMTLoader()(
            MarianMTModel(config).eval(), _Vocabulary(pieces, "<s>", "</s>", "<unk>")
        )
    specification.validate()
    specification.optimize(quantization=None if compute_type == "float32" else compute_type)
    specification.save(folder)


class _Vocabulary:
    """What the converter asks of a tokenizer."""

    def __init__(self, pieces, start, end, unknown):
        self.pieces = pieces
        self.bos_token, self.eos_token, self.unk_token = start, end, unknown

    def get_vocab(self):
        return {piece: number for number, piece in enumerate(self.pieces)}

    def convert_ids_to_tokens(self, number):
        return self.pieces[number]


def _piece(number):
    return f"piece{number}"


if __name__ == "__main__":
    kind, *arguments = sys.argv[1:]
    if kind == "translator":
        convert_translator(*arguments)
    else:
        convert(Size(**json.loads(arguments[0])), *arguments[1:])
