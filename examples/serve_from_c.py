"""Translate with an exported SavedModel through TensorFlow's C library; no TensorFlow Python.

    python examples/serve_from_c.py SAVEDMODEL < sentences.txt

reads one sentence a line and prints the score and the translation of each. Every TensorFlow call
below is one of the C API (tensorflow/c/c_api.h), so that this file reads as the C, Go or Rust
program that it stands for: load the ops of tensorflow-text, load the session, feed one string
tensor, fetch one string and one float tensor. The libraries are those in the Python packages
`tensorflow` and `tensorflow-text`, which are found but not imported; a server has its own copies.
"""

import argparse
import ctypes
import importlib.util
import sys
from pathlib import Path

FLOAT, STRING = 1, 7  # TF_DataType
STRING_SIZE = 24  # bytes of a TF_TString
SIGNATURE = "serving_default"


class Output(ctypes.Structure):
    """TF_Output: one output of an operation of the graph."""

    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


class Buffer(ctypes.Structure):
    """TF_Buffer."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("deallocator", ctypes.c_void_p),
    ]


class Library:
    """The functions of the C library; those that take a status raise RuntimeError by it."""

    def __init__(self):
        self.c = ctypes.CDLL(str(package_folder("tensorflow") / "libtensorflow_cc.so.2"))
        for name in (
            "TF_NewStatus TF_NewGraph TF_NewSessionOptions TF_LoadSessionFromSavedModel "
            "TF_LoadLibrary TF_GraphOperationByName TF_AllocateTensor TF_TensorData"
        ).split():
            getattr(self.c, name).restype = ctypes.c_void_p
        self.c.TF_Message.restype = ctypes.c_char_p
        self.c.TF_StringGetSize.restype = ctypes.c_size_t
        self.c.TF_StringGetDataPointer.restype = ctypes.c_void_p
        self.c.TF_Dim.restype = ctypes.c_int64
        self.status = ctypes.c_void_p(self.c.TF_NewStatus())

    def call(self, name, *arguments):
        """Calls a function whose last argument is the status."""
        result = getattr(self.c, name)(*arguments, self.status)
        if self.c.TF_GetCode(self.status):
            raise RuntimeError(f"{name}: {self.c.TF_Message(self.status).decode()}")
        return result

    def load_text_ops(self):
        """Makes known the tokenizers' operations, which TensorFlow itself does not have."""
        for file in sorted((package_folder("tensorflow_text") / "python" / "ops").glob("*.so")):
            self.call("TF_LoadLibrary", str(file).encode())

    def string_tensor(self, strings):
        """Returns a TF_Tensor of shape [len(strings)]."""
        shape = (ctypes.c_int64 * 1)(len(strings))
        size = ctypes.c_size_t(STRING_SIZE * len(strings))
        tensor = ctypes.c_void_p(self.c.TF_AllocateTensor(STRING, shape, 1, size))
        for element, string in zip(self.strings_of(tensor, len(strings)), strings, strict=True):
            data = string.encode()
            self.c.TF_StringInit(element)
            self.c.TF_StringCopy(element, data, ctypes.c_size_t(len(data)))
        return tensor

    def read_strings(self, tensor):
        """Returns the strings of a TF_Tensor with one axis."""
        return [
            ctypes.string_at(
                self.c.TF_StringGetDataPointer(element), self.c.TF_StringGetSize(element)
            ).decode()
            for element in self.strings_of(tensor, self.c.TF_Dim(tensor, 0))
        ]

    def read_floats(self, tensor):
        """Returns the float32 numbers of a TF_Tensor with one axis."""
        count = self.c.TF_Dim(tensor, 0)
        return list((ctypes.c_float * count).from_address(self.c.TF_TensorData(tensor)))

    def strings_of(self, tensor, count):
        """Returns pointers to the TF_TString elements of a tensor."""
        if not count:
            return []
        first = self.c.TF_TensorData(tensor)
        return [ctypes.c_void_p(first + STRING_SIZE * index) for index in range(count)]


class TranslationServer:
    """A SavedModel of `Translator.export` in a TF_Session."""

    def __init__(self, saved_model):
        self.library = Library()
        self.library.load_text_ops()
        self.graph = ctypes.c_void_p(self.library.c.TF_NewGraph())
        meta_graph = Buffer()
        self.session = ctypes.c_void_p(
            self.library.call(
                "TF_LoadSessionFromSavedModel",
                ctypes.c_void_p(self.library.c.TF_NewSessionOptions()),
                None,
                str(saved_model).encode(),
                (ctypes.c_char_p * 1)(b"serve"),
                1,
                self.graph,
                ctypes.byref(meta_graph),
            )
        )
        inputs, outputs = signature_names(ctypes.string_at(meta_graph.data, meta_graph.length))
        self.text = self.output(inputs["text"])
        self.fetches = (Output * 2)(*(self.output(outputs[n]) for n in ("translation", "score")))

    def output(self, name):
        """Returns the TF_Output of a tensor's name such as "StatefulPartitionedCall:1"."""
        operation, index = name.split(":")
        found = self.library.c.TF_GraphOperationByName(self.graph, operation.encode())
        return Output(found, int(index))

    def translate(self, sentences):
        """Returns (translations, scores) of a list of strings."""
        fed = self.library.string_tensor(sentences)
        results = (ctypes.c_void_p * 2)()
        self.library.call(
            "TF_SessionRun",
            self.session,
            None,
            (Output * 1)(self.text),
            (ctypes.c_void_p * 1)(fed),
            1,
            self.fetches,
            results,
            2,
            None,
            0,
            None,
        )
        translation, score = (ctypes.c_void_p(result) for result in results)
        answer = self.library.read_strings(translation), self.library.read_floats(score)
        for tensor in (fed, translation, score):
            self.library.c.TF_DeleteTensor(tensor)
        return answer


def package_folder(name):
    """Returns the folder of an installed package without importing it."""
    found = importlib.util.find_spec(name)
    if found is None:
        raise SystemExit(f"{name} is not installed: its shared libraries are needed.")
    return Path(found.origin).parent


def signature_names(meta_graph):
    """Returns the tensors' names of the signature's inputs and outputs: two dicts.

    The path in a MetaGraphDef message is signature_def (field 5, a map) -> inputs (1, a map) and
    outputs (2, a map) -> name (1).
    """
    signature = read_map(meta_graph, 5)[SIGNATURE]
    return tuple(
        {key: first(info, 1).decode() for key, info in read_map(signature, field).items()}
        for field in (1, 2)
    )


def read_map(message, field):
    """Returns a protocol buffer's map field from str to message: entries of key (1), value (2)."""
    entries = [value for number, value in read_fields(message) if number == field]
    return {first(entry, 1).decode(): first(entry, 2) for entry in entries}


def first(message, field):
    """Returns the first value of a field of a protocol buffer's message."""
    return next(value for number, value in read_fields(message) if number == field)


def read_fields(message):
    """Yields (number, value) of each field of a protocol buffer's message in wire format."""
    position = 0
    while position < len(message):
        tag, position = read_varint(message, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, position = read_varint(message, position)
        else:
            length = {1: 8, 5: 4}.get(wire_type)
            if length is None:
                length, position = read_varint(message, position)
            value, position = message[position : position + length], position + length
        yield number, value


def read_varint(message, position):
    """Returns the number at a position, seven bits a byte, and the position after it."""
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value, position


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("saved_model", help="folder that Translator.export wrote")
    try:
        server = TranslationServer(parser.parse_args().saved_model)
    except RuntimeError as error:  # what the C library says of a folder that it cannot load
        parser.error(str(error))
    sentences = [line.rstrip("\r\n") for line in sys.stdin]
    for translation, score in zip(*server.translate(sentences), strict=True):
        print(f"{score:9.4f}  {translation}")


if __name__ == "__main__":
    main()
