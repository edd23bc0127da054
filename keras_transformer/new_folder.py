"""Output folders that are written whole or not at all, and never over something else."""

import contextlib
import os
import shutil
import uuid
from pathlib import Path


def check_new_folder(path, overwrite, marker):
    """Raises ValueError where a folder must not be written; cheap, to be asked before long work.

    Args:
        path: path of the folder to be.
        overwrite: bool, whether a folder of the same kind may be replaced.
        marker: str, the file by which a folder of the same kind is known.
    """
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"`path` must be a path; got {path!r}. Pass that of a new folder.")
    path = Path(os.path.abspath(path))
    above = next(each for each in path.parents if os.path.lexists(each))
    if not above.is_dir():
        raise ValueError(
            f"`path` must lie in a folder; got {path}, and {above} is none. Choose another path."
        )
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise ValueError(
            f"`path` must not exist yet; got {path}, which does. Choose another path, or pass "
            "overwrite=True to replace it."
        )
    if not (path / marker).is_file():
        raise ValueError(
            f"`path` must be a folder with {marker} to be replaced; got {path}, which is something "
            "else and is left as it is. Choose another path."
        )


@contextlib.contextmanager
def new_folder(path, overwrite, marker):
    """A context that gives an empty folder beside `path` and renames it to `path` at the end.

    An error in between, or a killed process, leaves what is at `path` as it was.

    Args:
        path, overwrite, marker: as in `check_new_folder`.

    Yields:
        `pathlib.Path` of the empty folder.
    """
    check_new_folder(path, overwrite, marker)
    path = Path(os.path.abspath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    temporary.mkdir()
    try:
        yield temporary
        check_new_folder(path, overwrite, marker)
        _put_in_place(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put_in_place(folder, path):
    if not path.exists():
        folder.rename(path)
        return
    replaced = folder.with_name(folder.name + ".replaced")
    path.rename(replaced)
    try:
        folder.rename(path)
    except OSError:
        replaced.rename(path)
        raise
    shutil.rmtree(replaced)
