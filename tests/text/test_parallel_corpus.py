"""Reading pairs from files, the errors that name file and line, and splits by source sentence."""

import gzip

import pytest

from keras_transformer.text import ParallelCorpus

pytestmark = pytest.mark.any_backend


def write(path, content):
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def test_lists_index_slice_iterate():
    corpus = ParallelCorpus(["a", "b", ""], ["x", "y", "z"])
    assert len(corpus) == 3
    assert corpus[1] == ("b", "y")
    assert corpus[-1] == ("", "z")
    assert list(corpus) == [("a", "x"), ("b", "y"), ("", "z")]
    assert corpus[:2].targets == ["x", "y"]


@pytest.mark.parametrize("suffix", ["en", "en.gz"])
def test_two_files_plain_or_gzip(tmp_path, suffix):
    source = write(tmp_path / f"a.{suffix}", "A dog.\n\nA cat.\n")
    target = write(tmp_path / f"b.{suffix}", "Ein Läufer.\r\n\r\nEine Katze.")
    corpus = ParallelCorpus.from_files(str(source), target)
    assert corpus.sources == ["A dog.", "", "A cat."]
    assert corpus.targets == ["Ein Läufer.", "", "Eine Katze."]


def test_only_line_feeds_end_a_line(tmp_path):
    sentence = "a\u2028b\u2029c\x0bd\x0ce\x1cf\x85g\rh"
    path = write(tmp_path / "a.txt", "\ufeff" + sentence + "\n")
    assert ParallelCorpus.from_files(path, path).sources == [sentence]


def test_pairs_with_tabs_ignore_further_columns(tmp_path):
    path = write(tmp_path / "pairs.tsv.gz", "Hi.\tHallo!\tby somebody\nRun!\tLauf!\n")
    corpus = ParallelCorpus.from_pairs(path)
    assert list(corpus) == [("Hi.", "Hallo!"), ("Run!", "Lauf!")]
    turned = ParallelCorpus.from_pairs(path, source_column=1, target_column=0)
    assert list(turned) == [("Hallo!", "Hi."), ("Lauf!", "Run!")]


def test_file_errors_name_file_and_line(tmp_path):
    good = write(tmp_path / "good.txt", "a\nb\n")
    cases = {
        write(tmp_path / "three.txt", "a\nb\nc\n"): r"got 2 in .*good.txt and 3 in .*three.txt",
        write(tmp_path / "empty.txt", ""): r"`target` must hold sentences; .*empty.txt is empty",
        write(tmp_path / "latin.txt", b"a\nb\xe4c\n"): r"`target` must be UTF-8; line 2 of .*latin",
        write(tmp_path / "bom.txt", b"\xef\xbb\xbf\nb\xe4\n"): r"line 2 of .*bom.txt",
        tmp_path / "absent.txt": r"there is no file .*absent.txt",
        tmp_path: r"there is no file",
    }
    damaged = write(tmp_path / "cut.gz", "a\nb\n")
    damaged.write_bytes(damaged.read_bytes()[:-6])
    cases[damaged] = r"whole gzip file; got .*cut.gz"
    plain = tmp_path / "plain.gz"
    plain.write_text("a\nb\n")
    cases[plain] = r"whole gzip file; got .*plain.gz"
    for path, message in cases.items():
        with pytest.raises(ValueError, match=message):
            ParallelCorpus.from_files(good, path)


def test_pairs_errors(tmp_path):
    path = write(tmp_path / "pairs.tsv", "a\tb\nc d\n")
    with pytest.raises(ValueError, match=r"at least 2 columns.*got 1 on line 2 of .*'c d'"):
        ParallelCorpus.from_pairs(path)
    for columns in ((0, 0), (-1, 0)):
        with pytest.raises(ValueError, match="`source_column` and `target_column`"):
            ParallelCorpus.from_pairs(path, *columns)


@pytest.mark.parametrize(
    "sources, targets, message",
    [
        (["a"], ["x", "y"], "got 1 and 2 sentences"),
        ([], [], "must not be empty"),
        ("ab", ["x", "y"], "`sources` must be a list of strings"),
        (["a", 2], ["x", "y"], "`sources` must hold strings; got 2 at index 1"),
        (["a", "b"], ["x", None], "`targets` must hold strings; got None at index 1"),
    ],
)
def test_list_errors(sources, targets, message):
    with pytest.raises(ValueError, match=message):
        ParallelCorpus(sources, targets)


def test_split_keeps_each_source_sentence_on_one_side():
    sources = [f"sentence {number % 29}" for number in range(101)]
    corpus = ParallelCorpus(sources, [f"Satz {number}" for number in range(101)])
    kept, held = corpus.split(7, seed=3)
    assert len(set(held.sources)) == 7
    assert not set(kept.sources) & set(held.sources)
    assert sorted([*kept, *held]) == sorted(corpus)
    assert held.targets == [pair[1] for pair in corpus if pair[0] in set(held.sources)]
    assert list(corpus.split(7, seed=3)[1]) == list(held)
    assert list(corpus.split(7, seed=4)[1]) != list(held)
    for number in (0, 29, 101):
        with pytest.raises(ValueError, match="`held_out` .* 29; got"):
            corpus.split(number)
