"""Where translation data comes from: a folder, the user's cache, a checked download, a grammar."""

import hashlib
import http.client
import os
import sys
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from keras_transformer.text.caption_grammar import CaptionGrammar
from keras_transformer.text.parallel_corpus import ParallelCorpus

MULTI30K_URL = (
    "https://raw.githubusercontent.com/multi30k/dataset/"
    "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"
)
MULTI30K_SHA256 = {
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
}
CAPTIONS_NAME = "captions of the embedded grammar"  # of the data that `captions` returns
_TRAIN_NAMES = ("train",)
_VALIDATION_NAMES = ("val", "valid", "validation", "dev")
_TEST_NAMES = ("test_2016_flickr", "test")
_MULTI30K_SPLITS = ("train", "val", "test_2016_flickr")
_MULTI30K_LANGUAGES = ("en", "de", "fr")
_TIMEOUT = 20  # seconds without an answer
_CHUNK = 1 << 16  # bytes


@dataclass(frozen=True)
class TranslationData:
    """The three parts of a translation task.

    Args:
        name: str, says where the pairs come from, for a log or a table of results.
        source_language: str, for example "en".
        target_language: str, for example "de".
        train: `ParallelCorpus`.
        validation: `ParallelCorpus`.
        test: `ParallelCorpus`.
    """

    name: str
    source_language: str
    target_language: str
    train: ParallelCorpus
    validation: ParallelCorpus
    test: ParallelCorpus


def translation_data(directory=None, source_language="en", target_language="de", seed=0):
    """Finds a translation task: the first of these that is there.

    1. `directory`, if given: `load_folder`.
    2. Multi30k, from the user's cache or downloaded into it: `multi30k`.
    3. Where there is no network, English to German captions that a grammar writes: `captions`.
       This is said in several lines on the error stream, for its scores are not Multi30k's.

    Args:
        directory: path of a folder of line-aligned files, or None.
        source_language: str.
        target_language: str.
        seed: int, for the grammar.

    Returns:
        A `TranslationData`.

    Raises:
        ValueError: a file of `directory` is missing, or a checksum is wrong.
        ConnectionError: no network, and the grammar does not speak these languages.
    """
    if directory is not None:
        return load_folder(directory, source_language, target_language)
    try:
        return multi30k(source_language, target_language)
    except ConnectionError as error:
        if (source_language, target_language) != ("en", "de"):
            raise
        _warn_of_grammar(error)
        return captions(seed=seed)


def load_folder(directory, source_language="en", target_language="de", test=None):
    """Reads the parts of a translation task from a folder.

    The files are `PART.LANGUAGE` or `PART.LANGUAGE.gz`: one sentence a line, line n of one
    language the translation of line n of the other. The parts are train; val (or valid,
    validation, dev); and test_2016_flickr (or test).

    Args:
        directory: path of the folder.
        source_language: str, the ending of the source files.
        target_language: str, the ending of the target files.
        test: str, the name of the test part where it is another, such as "test_2017_flickr".

    Returns:
        A `TranslationData`.

    Raises:
        ValueError: the folder or a file is missing: the message names it and what is there.

    Example:

    >>> import pathlib, tempfile
    >>> from keras_transformer.text import load_folder
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for part in ("train", "val", "test"):
    ...     _ = (folder / f"{part}.en").write_text("A dog.\\n")
    ...     _ = (folder / f"{part}.de").write_text("Ein Hund.\\n")
    >>> load_folder(folder, "en", "de").train[0]
    ('A dog.', 'Ein Hund.')
    """
    directory = Path(directory)
    _check_languages(source_language, target_language)
    if not directory.is_dir():
        raise ValueError(f"`directory` must be a folder; there is no folder {directory}.")
    languages = (source_language, target_language)
    corpora = [
        ParallelCorpus.from_files(*_find_part(directory, names, languages))
        for names in (_TRAIN_NAMES, _VALIDATION_NAMES, (test,) if test else _TEST_NAMES)
    ]
    return TranslationData(directory.name, *languages, *corpora)


def multi30k(
    source_language="en",
    target_language="de",
    *,
    cache=None,
    base_url=MULTI30K_URL,
    checksums=MULTI30K_SHA256,
):
    """Multi30k: 29,000 descriptions of photographs and their translations, tested on flickr 2016.

    Files that the cache lacks are downloaded, checked and only then put in place: an interrupted
    download leaves nothing. The text is for research and education; no licence is stated for it.

    Args:
        source_language: "en", "de" or "fr".
        target_language: another of them.
        cache: path of the folder that keeps the files. `$KERAS_TRANSFORMER_CACHE/multi30k` when
            None, else `$XDG_CACHE_HOME/keras_transformer/multi30k`, else
            `~/.cache/keras_transformer/multi30k`.
        base_url: str, where a mirror holds the files; ends in a slash.
        checksums: dict of str to str, the SHA-256 of every file.

    Returns:
        A `TranslationData` named "multi30k".

    Raises:
        ValueError: an unknown language, or a file whose checksum is wrong.
        ConnectionError: a file is not there and cannot be downloaded.

    Reference:
        Elliott et al. (2016), "Multi30K: Multilingual English-German Image Descriptions".
    """
    _check_languages(source_language, target_language)
    for argument, language in (
        ("source_language", source_language),
        ("target_language", target_language),
    ):
        if language not in _MULTI30K_LANGUAGES:
            raise ValueError(
                f"`{argument}` must be one of {_MULTI30K_LANGUAGES}, the languages of Multi30k; "
                f"got {language!r}. Pass your own files as a folder to `load_folder`."
            )
    cache = Path(cache) if cache is not None else cache_directory() / "multi30k"
    languages = (source_language, target_language)
    names = [f"{part}.{language}.gz" for part in _MULTI30K_SPLITS for language in languages]
    missing = [name for name in names if not _is_cached(cache / name, checksums[name])]
    for number, name in enumerate(missing, start=1):
        print(
            f"Multi30k: downloading {name} ({number} of {len(missing)}) to {cache}", file=sys.stderr
        )
        _download(base_url + name, cache / name, checksums[name])
    data = load_folder(cache, *languages, test="test_2016_flickr")
    return TranslationData("multi30k", *languages, data.train, data.validation, data.test)


def captions(train=29000, validation=1000, test=1000, seed=0):
    """English to German captions written by `CaptionGrammar`; no file and no network are needed.

    Args:
        train: int, number of pairs to train on.
        validation: int, number of pairs to validate on.
        test: int, number of pairs to test on; each holds words never seen together in training.
        seed: int.

    Returns:
        A `TranslationData` named `CAPTIONS_NAME`.
    """
    grammar = CaptionGrammar(seed)
    parts = (("train", train), ("val", validation), ("test", test))
    corpora = [ParallelCorpus(*grammar.pairs(count, split)) for split, count in parts]
    return TranslationData(CAPTIONS_NAME, "en", "de", *corpora)


def cache_directory():
    """The folder where downloads are kept.

    Returns:
        A `pathlib.Path`: the environment's `KERAS_TRANSFORMER_CACHE`; else `keras_transformer`
        in `XDG_CACHE_HOME`; else `~/.cache/keras_transformer`.
    """
    if own := os.environ.get("KERAS_TRANSFORMER_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "keras_transformer"


def _check_languages(source_language, target_language):
    if source_language == target_language:
        raise ValueError(
            "`source_language` and `target_language` must differ; got "
            f"{source_language!r} for both. Pass for example 'en' and 'de'."
        )


def _find_part(directory, names, languages):
    """The files of one part in both languages, under the first name that has both."""
    wanted = [[_find_file(directory, f"{name}.{code}") for code in languages] for name in names]
    for files in wanted:
        if all(files):
            return files
    # The name to complain of is the one that is half there, else the first.
    closest = max(range(len(names)), key=lambda index: sum(map(bool, wanted[index])))
    absent = next(
        f"{names[closest]}.{code}"
        for code, file in zip(languages, wanted[closest], strict=True)
        if not file
    )
    found = ", ".join(sorted(path.name for path in directory.iterdir())) or "nothing"
    others = [name for name in names if name != names[closest]]
    instead = f" (the part may also be called {' or '.join(others)})" if others else ""
    raise ValueError(
        f"`directory` must hold {absent} or {absent}.gz{instead}; {directory} holds: {found}."
    )


def _find_file(directory, name):
    return next(
        (path for path in (directory / name, directory / f"{name}.gz") if path.is_file()), None
    )


def _is_cached(path, checksum):
    """Whether the file is there, checked; a plain copy of it beside is taken as it is."""
    if path.with_suffix("").is_file():
        return True
    if not path.is_file():
        return False
    _check_sum(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), checksum, path)
    return True


def _check_sum(name, found, expected, place):
    if found != expected:
        raise ValueError(
            f"{name} must have the SHA-256 checksum {expected}; found {found} in {place}. The file "
            "is damaged or another version: delete it if it is on this machine and try again, or "
            "pass a folder of your own files as `directory`."
        )


def _download(url, path, checksum):
    """Writes beside `path`, checks, and only then renames."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConnectionError(f"{url} has nowhere to go: {error}.") from error
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            found = _fetch(url, file)
        _check_sum(path.name, found, checksum, url)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _fetch(url, file):
    """Copies what the URL holds to an open file; returns its SHA-256."""
    digest = hashlib.sha256()
    received = 0
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
            announced = answer.headers.get("Content-Length")
            while chunk := answer.read(_CHUNK):
                file.write(chunk)
                digest.update(chunk)
                received += len(chunk)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError) as error:
        raise ConnectionError(f"{url} could not be downloaded: {error}.") from error
    if announced is not None and received != int(announced):
        raise ConnectionError(
            f"{url} could not be downloaded: the connection closed after {received} of "
            f"{announced} bytes."
        )
    return digest.hexdigest()


def _warn_of_grammar(error):
    rule = "!" * 88
    print(
        f"{rule}\n"
        "!! NO REAL DATA. Multi30k is neither in the cache nor can it be downloaded:\n"
        f"!!   {error}\n"
        "!! Using captions that a small grammar of this package writes, English to German.\n"
        "!! Scores on them say that training works; they compare with no published number.\n"
        "!! For the real data: connect, or pass a folder (train.en.gz, train.de.gz, val...,\n"
        "!! test_2016_flickr...) as `directory`, which the example and the command call --data.\n"
        f"{rule}",
        file=sys.stderr,
        flush=True,
    )
