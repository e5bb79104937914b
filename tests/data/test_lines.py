"""Lines of text files: archives, line ends, and unreadable files."""

from __future__ import annotations

import gzip
import io
import lzma
import shutil
from pathlib import Path

import pytest

from accel.data.files.archive import names_in, open_members
from accel.data.files.lines import (
    LineError,
    errors_at,
    files_of,
    find_file,
    open_files,
    read_lines,
    read_text_lines,
    read_word_lines,
)

ICONV = "convert it: iconv -f utf-16 -t utf-8 FILE"
TEXT = b"one\n\nthree \r\nfour"


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_archives_read_like_plain_files(tmp_path: Path, suffix: str, pack: type) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_bytes(pack(TEXT))
    assert list(read_lines(path)) == [(1, "one"), (2, ""), (3, "three "), (4, "four")]
    assert find_file(tmp_path, "text") == path


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"", "text", "text: an empty file"),
        (lzma.compress(b""), "text.xz", "text.xz: an empty file"),
        (b"good\nb\xe4d\n", "text", "text:2:2: not UTF-8: 0xe4: convert the file, as with iconv -f latin1 -t utf-8"),
        (
            "a b\n".encode("utf-16"),
            "text",
            f"text:1:1: not UTF-8, but UTF-16 by its byte-order mark FF FE: {ICONV} > NEW",
        ),
        ("\ufeffa\n".encode("utf-16-be"), "text", f"but UTF-16 by its byte-order mark FE FF: {ICONV} > NEW"),
        ("a".encode("utf-32"), "text", "but UTF-32 by its byte-order mark FF FE 00 00: convert it: iconv -f utf-32 "),
        (b"a\n\xff\xfe", "text", "text:2:1: not UTF-8: 0xff: convert the file, as with iconv -f latin1 -t utf-8"),
        (gzip.compress(b"a", mtime=0), "text", "text:1:2: not UTF-8, but a gzip archive: let its name end in .gz"),
        (lzma.compress(b"a"), "text", "not UTF-8, but an xz archive: let its name end in .xz"),
        (b"a\0\xff", "text", "text:1:3: not UTF-8: 0xff: no text, as it has bytes of 0: name a file of text"),
        ("a\nb".encode("utf-16-le"), "text", "text:1:2: a byte of 0, as in archives and in UTF-16: name a file"),
        (gzip.compress(b"a\n\0\0", mtime=0), "text.tar.gz", "text.tar.gz:2:1: a byte of 0, as in archives"),
        (b"one\rtwo\r", "text", "text: the lines end with carriage returns alone: convert it: tr '\\r' '\\n' < FILE"),
        (b"one\rtwo\n", "text", "text: the lines end with carriage returns alone: convert it: tr '\\r' '\\n' < FILE"),
        (lzma.compress(b"\xef\xbb\xbfone\rtwo\r\n"), "text.xz", "text.xz: the lines end with carriage returns alone"),
        (b"\xfe\xff\0a\0\r\0\n", "text", "text:1:1: not UTF-8, but UTF-16 by its byte-order mark FE FF"),
        (b"no archive", "text.xz", "text.xz: broken archive, or none at all: Input format not supported by decoder"),
        (gzip.compress(b"a\n" * 99, mtime=0)[:-12], "text.gz", "broken archive after this line: Compressed file ended"),
    ],
)
def test_unreadable_lines_are_named(tmp_path: Path, content: bytes, name: str, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LineError) as error:
        list(read_lines(tmp_path / name))
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("raised", "message"),
    [(ValueError("no tree"), "trees:7: no tree"), (LineError("words", 3, "no word"), "words:3: no word")],
)
def test_an_error_names_one_place(raised: ValueError, message: str) -> None:
    with pytest.raises(LineError) as error, errors_at("trees", 7):
        raise raised
    assert str(error.value) == message


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("one\ntwo\n".encode("utf-8-sig") * 2)  # two files with a mark each, joined
    assert list(read_lines(path)) == [(1, "one"), (2, "two"), (3, "one"), (4, "two")]


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT)))
    assert list(read_lines("-")) == [(1, "one"), (2, ""), (3, "three "), (4, "four")]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\xff")))
    with pytest.raises(LineError, match="^<stdin>:2:2: not UTF-8: 0xff"):
        list(read_lines("-"))


def test_blank_lines_have_no_words(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(TEXT)
    assert read_word_lines(path) == [["one"], [], ["three"], ["four"]]
    path.write_bytes(b"\n \t\n")
    with pytest.raises(LineError, match="text: no sentence in this file"):
        read_word_lines(path)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"one\r\n", ["one"]),
        (b"one\r\r\n", ["one\r"]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b"one\rtwo\nthree", ["one\rtwo", "three"]),
        (b"one\rtwo\n\n", ["one\rtwo", ""]),
    ],
)
def test_a_carriage_return_is_read_within_a_file_of_several_lines(
    tmp_path: Path, content: bytes, lines: list[str]
) -> None:
    for name, pack in (("text", bytes), ("text.gz", gzip.compress)):
        (tmp_path / name).write_bytes(pack(content))
        assert list(read_lines(tmp_path / name)) == list(enumerate(lines, 1))


MRG = """\

( (S
    (NP-SBJ (DT the) (NN dog) )

    (VP (VBZ sings))
    (. .) ))
( (S (NP it)))
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [(MRG, 2), ("\n" + MRG.replace("( (S", "(S1 (S"), 3), ("(S (NP the bird ) (VP sings ) )\n", 1)],
)
def test_a_treebank_is_no_text(tmp_path: Path, text: str, line: int) -> None:
    """A tree may go over several lines, and have blanks before its brackets."""
    path = tmp_path / "text"
    path.write_text(text)
    with pytest.raises(LineError, match=f"^{path}:{line}: a tree, where a line of text should be: "):
        next(read_text_lines(path))


@pytest.mark.parametrize(
    "text",
    [
        "(He left\nthe house\nearly.)\n",
        "(He left\n(for good),\nhe said (twice).)\n",
        "\n(He left (for good)\nand never came back to (her\nor) him)\n",
        "(\n(never closed\n" + "(again\n" * 300,
        ") (\nwords\n",
        "words\n" + MRG,
    ],
)
def test_a_text_may_begin_with_a_bracket(tmp_path: Path, text: str) -> None:
    (tmp_path / "text").write_text(text)
    assert list(read_text_lines(tmp_path / "text")) == list(enumerate(text.splitlines(), 1))


def test_one_form_of_each_file_of_a_folder_must_be_there(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl.xz", "c.jsonl.gz"):
        (tmp_path / name).touch()
    assert [file.name for file in files_of(tmp_path, ".jsonl")] == ["a.jsonl", "b.jsonl.xz", "c.jsonl.gz"]
    (tmp_path / "b.jsonl.gz").touch()
    with pytest.raises(ValueError, match="holds both b.jsonl.gz and b.jsonl.xz: keep one"):
        list(open_files(tmp_path, ".jsonl"))


def test_one_form_of_a_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file, nor one ending in .xz or .gz"):
        find_file(tmp_path, "text")
    for name in ("text", "text.xz"):
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match="holds both text and text.xz: keep one"):
        find_file(tmp_path, "text")


def packed(folder: Path, kind: str) -> Path:
    """Return an archive with the files data/raw/text and data/text."""
    for name in ("raw", "."):
        (folder / "data" / name).mkdir(parents=True, exist_ok=True)
        (folder / "data" / name / "text").write_text(f"a\nb of {name}\n")
    return Path(shutil.make_archive(str(folder / "packed"), kind, folder, "data"))


@pytest.mark.parametrize("kind", ["zip", "xztar", "gztar", "tar"])
def test_damaged_archives_are_named(tmp_path: Path, kind: str) -> None:
    """Wherever an archive is cut or a byte of it is changed, its files are listed, or it is refused in one line."""
    archive = packed(tmp_path, kind)
    content = archive.read_bytes()
    for place in range(0, len(content), len(content) // 40):
        for damaged in (content[:place], content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :]):
            archive.write_bytes(damaged)
            try:
                names_in(archive)
            except ValueError as error:
                assert str(error).startswith(f"{archive}: neither a folder nor an archive that can be opened (")
                assert "\n" not in str(error)


@pytest.mark.parametrize("kind", ["zip", "xztar", "gztar", "tar"])
def test_archives_are_folders(tmp_path: Path, kind: str) -> None:
    archive = packed(tmp_path, kind)
    bare = shutil.make_archive(str(tmp_path / "bare"), kind, tmp_path / "data" / "raw")  # tar: a member ./text
    assert [line for _, line in read_lines(find_file(bare, "text"))] == ["a", "b of raw"]
    path = find_file(archive, "raw/text")
    assert path == archive / "data" / "raw" / "text"
    assert list(read_lines(path)) == [(1, "a"), (2, "b of raw")]
    with pytest.raises(ValueError, match="holds both data/"):
        find_file(archive, "text")
    for find in (lambda: find_file(archive, "aw/text"), lambda: list(read_lines(archive / "aw" / "text"))):
        with pytest.raises(FileNotFoundError, match="no such file in this archive: .*/aw/text"):
            find()


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_files_that_macos_packs_beside_others_are_left_out(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "data"
    for name in ("text/a.txt", "__MACOSX/text/._a.txt", "text/._a.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    archive = Path(shutil.make_archive(str(tmp_path / "packed"), kind, tmp_path, "data"))
    assert [name for name in names_in(archive) if not name.endswith("/")] == ["data/text/a.txt"]
    assert [path for path, _ in open_members(archive, ".txt")] == [archive / "data" / "text" / "a.txt"]


def test_broken_archives_are_named(tmp_path: Path) -> None:
    archive = packed(tmp_path, "xztar")
    archive.write_bytes(archive.read_bytes()[:150])
    with pytest.raises(ValueError, match="packed.tar.xz: neither a folder nor an archive"):
        find_file(archive, "raw/text")
    with pytest.raises(LineError, match="packed.tar.xz/data/text: broken archive"):
        list(read_lines(archive / "data" / "text"))
    (tmp_path / "text").write_text("no archive\n")
    with pytest.raises(ValueError, match="text: neither a folder nor an archive"):
        find_file(tmp_path / "text", "raw/text")
