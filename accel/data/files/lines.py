"""Text files read line by line, plain, .gz, .xz or in an archive, and standard input; errors name the place."""

from __future__ import annotations

import codecs
import errno
import gzip
import io
import lzma
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from accel.data.files import archive
from accel.data.files.noted import note

_OPENERS = {".xz": lzma.open, ".gz": gzip.open}
_CONSTITUENT = re.compile(r"\([^\s()]+ +(?=[^\s)])")
_CONVERT = "convert the file, as with iconv -f latin1 -t utf-8"
_NO_TEXT = "a byte of 0, as in archives and in UTF-16: name a file of text in UTF-8"
_RETURNS = "the lines end with carriage returns alone: convert it: tr '\\r' '\\n' < FILE > NEW"
_TREE_LINES = 200
"""The most lines at the beginning of a text that are read as one tree, to see whether they are."""


STANDARD = "-"
"""The name of standard input, and of standard output where a file is written."""


class LineError(ValueError):
    """A file that cannot be read: its `path`, `line` and `column` (from 1; 0 if there is none), and the `reason`."""

    def __init__(self, path: str | Path, line: int, reason: str, column: int = 0) -> None:
        super().__init__(f"{place(path, line, column)}: {reason}")
        self.path, self.line, self.column, self.reason = str(path), line, column, reason


def place(path: str | Path, line: int = 0, column: int = 0) -> str:
    """Return a place as all messages name it: ``file:line:column``, without the numbers that are 0.

    Examples
    --------
    >>> place("train.trees", 3, 7), place("train.trees", 3), place("-", 1)
    ('train.trees:3:7', 'train.trees:3', '<stdin>:1')
    """
    name = "<stdin>" if is_standard(path) else str(path)
    return ":".join([name, *(str(number) for number in (line, column) if number)])


@contextmanager
def errors_at(path: object, line: int) -> Iterator[None]:
    """Turn a ValueError that is raised inside into a LineError at this line; a LineError stays as it is."""
    try:
        yield
    except LineError:
        raise
    except ValueError as error:
        raise LineError(str(path), line, str(error)) from error


def is_standard(path: str | Path | None) -> bool:
    """Return whether a path is "-" or /dev/stdout: standard input, or standard output for a file to write."""
    return str(path) in (STANDARD, "/dev/stdout")


def open_bytes(path: str | Path) -> BinaryIO:
    """Return the file, opened for reading and unpacked; for "-" the rest of standard input."""
    if is_standard(path):
        return io.BytesIO(sys.stdin.buffer.read())
    packed = archive.archive_of(Path(path))
    note(packed or Path(path))
    if packed is not None:
        return archive.open_member(packed, Path(path).relative_to(packed).as_posix())
    return _OPENERS.get(Path(path).suffix, open)(path, "rb")  # type: ignore[operator, no-any-return]


def unpacked(path: Path) -> Path:
    """Return a path without the .gz or .xz at its end.

    Examples
    --------
    >>> str(unpacked(Path("en.text.xz"))), str(unpacked(Path("en.text")))
    ('en.text', 'en.text')
    """
    return path.with_suffix("") if path.suffix in _OPENERS else path


def files_of(folder: Path, suffix: str) -> list[Path]:
    """Return the files of a folder whose names end with `suffix`, or with it and .gz or .xz, by name.

    Raises
    ------
    ValueError
        If a file exists in several of these forms.
    """
    return one_form_of_each(file for ending in ("", *_OPENERS) for file in folder.glob(f"*{suffix}{ending}"))


def one_form_of_each(files: Iterable[Path]) -> list[Path]:
    """Return the files by name; ValueError if one of them exists in several forms, such as plain and packed."""
    first_forms: dict[Path, Path] = {}
    for file in sorted(files):
        first = first_forms.setdefault(unpacked(file), file)
        if first != file:
            raise ValueError(f"{file.parent}: holds both {first.name} and {file.name}: keep one")
    return list(first_forms.values())


def open_files(path: str | Path, suffix: str) -> Iterator[tuple[Path, BinaryIO]]:
    """Yield the path and the opened stream of every file of a folder or an archive whose name ends with `suffix`.

    The files of a folder may be packed: names may also end with `suffix` and .gz or .xz. If `path` itself has the
    suffix, it is the only file.

    Raises
    ------
    ValueError
        If there are none, or the archive is broken; as `files_of` does.
    """
    path, is_any = Path(path), False
    if not path.is_dir() and suffix in path.suffixes:
        yield path, open_bytes(path)
        return
    try:
        files = ((file, open_bytes(file)) for file in files_of(path, suffix))
        if not path.is_dir():
            note(path)
        for file, stream in files if path.is_dir() else archive.open_members(path, suffix):
            is_any = True
            with stream:
                yield file, stream
    except archive.BROKEN as error:
        raise ValueError(archive.no_archive(path, error, f"a {suffix} file, a folder")) from error
    if not is_any:
        raise ValueError(f"{path}: no {suffix} files in it")


def read_lines(path: str | Path, opened: BinaryIO | None = None) -> Generator[tuple[int, str], None, None]:
    """Yield every line with its number, without the line feed (and carriage return) that ends it.

    A byte-order mark that begins a line is skipped: joined files have some inside. `opened` is the file if it is open
    already; errors then name it by `path`.

    Raises
    ------
    LineError
        At the faulty line: a byte that is not UTF-8, or is 0, a broken archive; a file without lines, or of lines that
        end with carriage returns alone.
    """
    number = 0
    try:
        with _open(path) if opened is None else opened as file:
            for number, raw in enumerate(_raw_lines(path, file), 1):
                line = raw.decode("utf-8")
                if "\0" in line:
                    raise LineError(path, number, _NO_TEXT, line.index("\0") + 1)
                yield number, line.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode("utf-8")) + 1
        raise LineError(path, number, _not_utf8(raw, error.start, number), column) from error
    except archive.BROKEN as error:
        broken = "broken archive after this line" if number else "broken archive, or none at all"
        raise LineError(path, number, f"{broken}: {archive.cause(error)}") from error
    if not number:
        raise LineError(path, 0, "an empty file")


def _raw_lines(path: str | Path, file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines without byte-order marks; LineError if the only line, of text, has carriage returns in it."""
    for first in file:
        has_returns = b"\r" in first.rstrip(b"\r\n") and b"\0" not in first
        second = [file.readline()] if has_returns else []
        if second == [b""]:
            raise LineError(path, 0, _RETURNS)
        yield from (line.removeprefix(codecs.BOM_UTF8) for line in chain([first], second, file))


def read_text_lines(path: str | Path) -> Generator[tuple[int, str], None, None]:
    """Yield the lines of a text as `read_lines` does, and refuse a treebank.

    Raises
    ------
    LineError
        As `read_lines` does; if all lines are blank; if a tree, on one line or several, begins at the first line with
        words.
    """
    lines = read_lines(path)
    beginning = _beginning(lines)
    first = next((number for number, line in beginning if line.strip()), 0)
    if not first:
        raise LineError(path, 0, "no sentence in this file: give text, a sentence a line")
    if is_tree(" ".join(line for _, line in beginning)):
        use = "a treebank's text is written by grove prepare text FILE --convention plain --out TEXT"
        raise LineError(path, first, f"a tree, where a line of text should be: {use}")
    yield from chain(beginning, lines)


def _beginning(lines: Iterator[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the lines up to the first one with words, and if it opens a tree, up to the line that closes it.

    In a tree every line begins with a bracket: a sentence in brackets that goes on in the next line is none.
    """
    beginning, n_open = list[tuple[int, str]](), 0
    for number, line in lines:
        beginning.append((number, line))
        text = line.strip()
        n_open += text.count("(") - text.count(")")
        if text and (text[0] not in "()" or n_open <= 0 or len(beginning) >= _TREE_LINES):
            break
    return beginning


def is_tree(text: str) -> bool:
    """Return whether a text is one bracketed tree of two constituents or more, as in a treebank.

    Examples
    --------
    >>> is_tree("(S (NP the bird) (VP sings))"), is_tree("( (S (NP (NN it))) )"), is_tree("(S (NP the )  (VP end ) )")
    (True, True, True)
    >>> is_tree("(He left (twice).)"), is_tree("( not ( a or b ) )"), is_tree("(S (NP the")
    (False, False, False)
    """
    text = " ".join(text.split()).replace(" )", ")")
    if text.startswith("( (") and text.endswith(")"):
        text = text[1:-1].strip()  # the Penn Treebank's bracket without a label
    n_opened = text.count("(")
    is_labelled = len(_CONSTITUENT.findall(text)) == n_opened == text.count(")")
    return n_opened > 1 and is_labelled and text.startswith("(") and text.endswith(")")


_ARCHIVES = {
    b"\x1f\x8b": "a gzip archive: let its name end in .gz",
    b"\xfd7zXZ\0": "an xz archive: let its name end in .xz",
    b"PK\3\4": "a zip archive: unpack it first",
}
"""What a file that begins with these bytes is, and what to do with it."""


def _not_utf8(raw: bytes, place: int, number: int) -> str:
    """Return the reason why a line is not UTF-8, and how the file is converted."""
    marks = {codecs.BOM_UTF32_LE: "32", codecs.BOM_UTF16_LE: "16", codecs.BOM_UTF16_BE: "16"}  # the longer first
    for mark, bits in marks.items() if number == 1 else ():
        if raw.startswith(mark):
            hexadecimal = mark.hex(" ").upper()
            convert = f"convert it: iconv -f utf-{bits} -t utf-8 FILE > NEW"
            return f"not UTF-8, but UTF-{bits} by its byte-order mark {hexadecimal}: {convert}"
    for mark, advice in _ARCHIVES.items() if number == 1 else ():
        if raw.startswith(mark):
            return f"not UTF-8, but {advice}"
    if b"\0" in raw:
        return f"not UTF-8: 0x{raw[place]:02x}: no text, as it has bytes of 0: name a file of text"
    return f"not UTF-8: 0x{raw[place]:02x}: {_CONVERT}"


def _open(path: str | Path) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if is_standard(path) else open_bytes(path)


def read_once(path: str | Path, copy: Path) -> Generator[tuple[int, str], None, None]:
    """Yield the lines of a file that can be read only once, and copy them; raises as `read_lines`."""
    with copy.open("wb") as file:
        for number, line in read_lines(path):
            file.write(f"{line}\n".encode())
            yield number, line


def read_word_lines(path: str | Path, words_of: Callable[[str], list[str]] = str.split) -> list[list[str]]:
    """Return the words of every line; a blank line has none.

    Raises
    ------
    LineError
        As `read_text_lines` does.
    """
    return [words_of(line) for _, line in read_text_lines(path)]


def find_file(folder: str | Path, name: str) -> Path:
    """Return the path of a file in a folder, plain, .gz or .xz; the folder may be an archive.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file exists in none of these forms, or in several.
    """
    if Path(folder).is_file():
        return archive.find_member(Path(folder), name)
    paths = [Path(folder) / f"{name}{suffix}" for suffix in ("", *_OPENERS)]
    files = [path for path in paths if path.is_file()]
    if not files:
        raise FileNotFoundError(errno.ENOENT, "no such file, nor one ending in .xz or .gz", str(paths[0]))
    if len(files) > 1:
        raise ValueError(f"{folder}: holds both {files[0].name} and {files[1].name}: keep one")
    return files[0]
