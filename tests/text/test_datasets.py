import functools
import gzip
import hashlib
import http.server
import os
import threading

import pytest

from keras_transformer.text import datasets
from keras_transformer.text.datasets import (
    CAPTIONS_NAME,
    cache_directory,
    captions,
    load_folder,
    multi30k,
    translation_data,
)

pytestmark = pytest.mark.any_backend

LINES = {
    "en": ["A dog.", "Two cats are sleeping.", "A man in red."],
    "de": ["Ein Hund.", "Zwei Katzen schlafen.", "Ein Mann in Rot."],
    "fr": ["Un chien.", "Deux chats dorment.", "Un homme en rouge."],
}
PARTS = {"train": 3, "val": 2, "test_2016_flickr": 1}


def write_parts(folder, compress=True, languages=("en", "de", "fr")):
    for part, count in PARTS.items():
        for language in languages:
            text = "".join(line + "\n" for line in LINES[language][:count]).encode()
            if compress:
                (folder / f"{part}.{language}.gz").write_bytes(gzip.compress(text))
            else:
                (folder / f"{part}.{language}").write_bytes(text)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; announces more bytes than it sends for names the server lists."""

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self.server.requested.append(self.path)
        if self.path.strip("/") in self.server.cut_off:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"only this")
            self.close_connection = True
        else:
            super().do_GET()


@pytest.fixture
def mirror(tmp_path):
    folder = tmp_path / "mirror"
    folder.mkdir()
    write_parts(folder)
    handler = functools.partial(Handler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.requested, server.cut_off = [], set()
    server.folder = folder
    server.arguments = {
        "cache": tmp_path / "cache",
        "base_url": f"http://127.0.0.1:{server.server_port}/",
        "checksums": {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()
        },
    }
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("compress", [True, False])
def test_folder_plain_or_gzip(tmp_path, compress):
    write_parts(tmp_path, compress)
    data = load_folder(tmp_path, "de", "fr")
    assert (data.source_language, data.target_language) == ("de", "fr")
    assert [len(part) for part in (data.train, data.validation, data.test)] == [3, 2, 1]
    assert data.train[2] == ("Ein Mann in Rot.", "Un homme en rouge.")


def test_folder_with_other_names(tmp_path):
    for part in ("train", "dev", "test", "test_2017"):
        for language in ("en", "de"):
            (tmp_path / f"{part}.{language}").write_text(f"{part} {language}\n")
    assert load_folder(tmp_path).validation[0] == ("dev en", "dev de")
    assert load_folder(tmp_path).test[0] == ("test en", "test de")
    assert load_folder(tmp_path, test="test_2017").test[0] == ("test_2017 en", "test_2017 de")


def test_missing_file_is_named_with_what_is_there(tmp_path):
    write_parts(tmp_path)
    (tmp_path / "val.de.gz").unlink()
    with pytest.raises(ValueError, match=r"val\.de or val\.de\.gz .*holds: .*train\.en\.gz"):
        load_folder(tmp_path)
    with pytest.raises(ValueError, match=r"train\.cs or train\.cs\.gz; "):
        load_folder(tmp_path, "en", "cs")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds: nothing"):
        load_folder(tmp_path / "empty")


def test_wrong_folder_and_languages(tmp_path):
    with pytest.raises(ValueError, match="there is no folder .*absent"):
        load_folder(tmp_path / "absent")
    with pytest.raises(ValueError, match="must differ"):
        load_folder(tmp_path, "en", "en")
    with pytest.raises(ValueError, match="`target_language` must be one of .*'cs'"):
        multi30k("en", "cs", cache=tmp_path)


def test_download_then_cache(mirror, capsys):
    data = multi30k("en", "fr", **mirror.arguments)
    assert data.name == "multi30k"
    assert data.train.targets == LINES["fr"]
    assert data.test.sources == LINES["en"][:1]
    assert len(mirror.requested) == 6
    assert "downloading test_2016_flickr.fr.gz (6 of 6)" in capsys.readouterr().err
    assert len(list(mirror.arguments["cache"].iterdir())) == 6

    multi30k("en", "fr", **mirror.arguments)
    assert len(mirror.requested) == 6
    multi30k("en", "de", **mirror.arguments)
    assert len(mirror.requested) == 9


def test_wrong_checksum_leaves_nothing(mirror):
    (mirror.folder / "train.en.gz").write_bytes(b"something else")
    found = hashlib.sha256(b"something else").hexdigest()
    expected = mirror.arguments["checksums"]["train.en.gz"]
    with pytest.raises(ValueError, match=rf"train\.en\.gz .*{expected}; found {found}.* delete"):
        multi30k(**mirror.arguments)
    assert list(mirror.arguments["cache"].iterdir()) == []


def test_damaged_cache_is_found(mirror):
    multi30k(**mirror.arguments)
    (mirror.arguments["cache"] / "val.de.gz").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"val\.de\.gz must have the SHA-256"):
        multi30k(**mirror.arguments)


def test_interrupted_download_leaves_nothing(mirror):
    mirror.cut_off.add("train.de.gz")
    with pytest.raises(ConnectionError, match=r"train\.de\.gz could not be downloaded"):
        multi30k(**mirror.arguments)
    assert [path.name for path in mirror.arguments["cache"].iterdir()] == ["train.en.gz"]
    mirror.cut_off.clear()
    assert len(multi30k(**mirror.arguments).train) == 3


def test_file_that_the_mirror_lacks(mirror):
    (mirror.folder / "val.en.gz").unlink()
    with pytest.raises(ConnectionError, match=r"val\.en\.gz could not be downloaded.*404"):
        multi30k(**mirror.arguments)


def test_cache_directory_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_TRANSFORMER_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "own"
    monkeypatch.delenv("KERAS_TRANSFORMER_CACHE")
    assert cache_directory() == tmp_path / "xdg" / "keras_transformer"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "keras_transformer"


def test_a_folder_comes_first(tmp_path, monkeypatch):
    write_parts(tmp_path)
    monkeypatch.setattr(datasets, "multi30k", None)
    assert len(translation_data(tmp_path).train) == 3


@pytest.fixture
def no_network(tmp_path, monkeypatch):
    def refuse(*arguments, **keywords):
        raise ConnectionError("https://mirror/train.en.gz could not be downloaded: no route.")

    monkeypatch.setenv("KERAS_TRANSFORMER_CACHE", str(tmp_path))
    monkeypatch.setattr(datasets, "_download", refuse)


def test_without_network_the_grammar_said_loudly(no_network, monkeypatch, capsys):
    few = functools.partial(captions, train=31, validation=7, test=5)
    monkeypatch.setattr(datasets, "captions", few)
    data = translation_data(seed=2)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [31, 7, 5]
    assert data.name == CAPTIONS_NAME
    warning = capsys.readouterr().err
    assert "NO REAL DATA" in warning and "no route" in warning and "--data" in warning
    assert warning.count("\n!!") > 4


def test_a_cache_that_cannot_be_made_is_no_network(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("KERAS_TRANSFORMER_CACHE", str(tmp_path / "file"))
    with pytest.raises(ConnectionError, match="nowhere to go"):
        multi30k()


def test_without_network_the_grammar_does_not_speak_french(no_network):
    with pytest.raises(ConnectionError, match="no route"):
        translation_data(target_language="fr")


def test_captions_parts_are_apart():
    data = captions(train=211, validation=31, test=37, seed=1)
    assert not set(data.train.sources) & set(data.test.sources)
    assert captions(train=211, validation=31, test=37, seed=1).test.targets == data.test.targets


FOLDER = os.path.join(os.path.dirname(__file__), "..", "..", "..", "shared", "data", "multi30k")


@pytest.mark.skipif(not os.path.isdir(FOLDER), reason="Multi30k is not beside the checkout")
def test_checksums_are_those_of_multi30k():
    for name, expected in datasets.MULTI30K_SHA256.items():
        with open(os.path.join(FOLDER, name), "rb") as file:
            assert hashlib.sha256(file.read()).hexdigest() == expected
    data = load_folder(FOLDER, "en", "de")
    assert [len(part) for part in (data.train, data.validation, data.test)] == [29000, 1014, 1000]
