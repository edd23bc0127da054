import pytest

from keras_transformer.new_folder import new_folder

pytestmark = pytest.mark.any_backend


def write(path, text, overwrite=False):
    with new_folder(path, overwrite, marker="kind") as folder:
        (folder / "kind").write_text(text)


def test_makes_a_folder_and_its_parents(tmp_path):
    write(tmp_path / "a" / "b", "new")
    assert (tmp_path / "a" / "b" / "kind").read_text() == "new"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_replaces_a_folder_of_its_kind_only_when_asked(tmp_path):
    write(tmp_path / "b", "old")
    (tmp_path / "b" / "more").touch()
    with pytest.raises(ValueError, match="must not exist yet"):
        write(tmp_path / "b", "new")
    assert (tmp_path / "b" / "kind").read_text() == "old"
    write(tmp_path / "b", "new", overwrite=True)
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["kind"]
    assert (tmp_path / "b" / "kind").read_text() == "new"


def test_leaves_anything_else_alone(tmp_path):
    (tmp_path / "file").write_text("work")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "folder", "link"):
        with pytest.raises(ValueError, match="with kind to be replaced; got .*something else"):
            write(tmp_path / name, "new", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "link"]


def test_refuses_what_can_be_no_folder(tmp_path):
    (tmp_path / "file").write_text("work")
    with pytest.raises(ValueError, match="`path` must lie in a folder; got .*a/b, and .*file "):
        write(tmp_path / "file" / "a" / "b", "new")
    with pytest.raises(ValueError, match="`path` must be a path; got None"):
        write(None, "new")


def test_a_failure_leaves_what_was_there(tmp_path):
    write(tmp_path / "b", "old")
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "b", True, "kind") as folder:
        (folder / "kind").write_text("half")
        raise KeyboardInterrupt
    assert (tmp_path / "b" / "kind").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_what_came_meanwhile_is_kept(tmp_path):
    with pytest.raises(ValueError, match="must not exist yet"):
        with new_folder(tmp_path / "b", False, "kind") as folder:
            (folder / "kind").write_text("late")
            write(tmp_path / "b", "first")
    assert (tmp_path / "b" / "kind").read_text() == "first"
