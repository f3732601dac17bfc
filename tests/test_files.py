"""A user's files opened with care, JSON from anybody, outputs that are whole, new and never an input."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mast.files import (
    atomic,
    cache_folder,
    check_output,
    check_outputs,
    new_folder,
    open_regular,
    parse_json,
    read_json,
    remove_leftovers,
    sha256,
    shown,
)
from mast.job import InputError

NOT_UTF8 = os.fsdecode(b"caf\xe9.png")


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def listing(folder: str | Path = ".") -> list[str]:
    return sorted(os.listdir(folder))


# ------------------------------------------------------------------------------------------------ opening


def a_socket(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(name)


SPECIAL = {"pipe": os.mkfifo, "socket": a_socket, "device": lambda name: os.symlink("/dev/zero", name)}


@pytest.mark.parametrize("use", [open_regular, sha256, read_json])
@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_file_is_refused_at_once(kind, use):
    SPECIAL[kind]("odd")
    with pytest.raises(InputError, match=f"odd: this is a {kind}, and only files are read; give the path"):
        use("odd")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("gone", "gone: no such file; give the path of the file"),
        ("file/below", "no such file"),
        (".", "this is a folder"),
        ("", "'': no such file"),
        ("loop", "cannot be opened .*; give the path"),
        ("x" * 300, "cannot be opened"),
        ("a\0b", r"a\\x00b: cannot be opened"),
        ("\ud800", "cannot be opened"),
    ],
)
@pytest.mark.parametrize("use", [open_regular, sha256, read_json])
def test_what_cannot_be_opened_is_an_input_error_of_one_line(path, says, use):
    Path("file").write_text("")
    os.symlink("loop", "loop")
    with pytest.raises(InputError, match=says) as caught:
        use(path)
    str(caught.value).encode()  # can be printed
    assert "\n" not in str(caught.value)


def test_a_hash_is_that_of_the_bytes_however_many():
    for size in (0, 1, (1 << 20) - 1, 1 << 20, (5 << 20) + 3):
        data = os.urandom(size)
        Path("data").write_bytes(data)
        assert sha256("data") == sha256(Path("data")) == hashlib.sha256(data).hexdigest()


def test_a_hash_is_made_a_piece_at_a_time():
    """60 MB are hashed by a process that may have no more than 20 MB beyond what Python itself takes."""
    with open("large", "wb") as file:
        file.truncate(60 << 20)
    code = """if True:
        import resource
        from mast.files import sha256
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (20 << 20), used + (20 << 20)))
        print(sha256("large"))
    """
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == hashlib.sha256(bytes(60 << 20)).hexdigest()


# ------------------------------------------------------------------------------------------------ names


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("plain.png", "plain.png"),
        ("日本\u3000語.png", "日本\u3000語.png"),
        (NOT_UTF8, r"caf\xe9.png"),
        ("two\nlines\x1b[31m", r"two\nlines\x1b[31m"),
        ("\u2028", r"\u2028"),
        (b"caf\xe9", r"caf\xe9"),
        ("", "''"),
    ],
)
def test_names_are_shown_so_that_any_terminal_can_print_them(name, seen):
    assert shown(name) == seen
    seen.encode()


@given(st.binary(min_size=1, max_size=40))
def test_every_name_can_be_printed_on_one_line(name):
    text = shown(name)
    text.encode()
    assert text.isprintable() or not any(c in text for c in "\n\r\t\x1b\x7f\x85")


def test_a_file_whose_name_is_no_text_can_be_written_read_and_named_in_a_message():
    target = check_output(NOT_UTF8)
    with atomic(target) as part:
        part.write_bytes(b"x")
    assert sha256(NOT_UTF8) == hashlib.sha256(b"x").hexdigest()
    with pytest.raises(InputError, match=r"caf\\xe9\.png: exists already") as caught:
        check_output(NOT_UTF8)
    str(caught.value).encode()


# ------------------------------------------------------------------------------------------------ JSON


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "damaged"),
        (b"{", "damaged"),
        (b"\xff\xfe{}", "damaged"),
        (b"\x80", "damaged"),
        (b'{"a": NaN}', "NaN is no number"),
        (b"[Infinity]", "Infinity is no number"),
        (b"[-Infinity]", "-Infinity is no number"),
        (b"[1e999]", "1e999 is no number"),
        (b"[" + b"9" * 400 + b"]", "a number of 400 digits"),
        (b"[" + b"9" * 9000 + b"]", "a number of 9000 digits"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "'c' is given twice"),
        (b"[" * 100 + b"]" * 100, "more than 64 deep"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "more than 64 deep"),
        (b"[" * 200_000, "nested far too deep"),
        (b"[" * 200_000 + b"]" * 200_000, "nested far too deep"),
    ],
)
def test_json_that_no_program_of_ours_would_write_is_refused_by_name(data, says):
    Path("strange.json").write_bytes(data)
    with pytest.raises(
        InputError,
        match=f"^strange.json: damaged JSON .*{re.escape(says)}" if says != "damaged" else "damaged",
    ):
        read_json("strange.json")


def test_json_is_bounded_in_size():
    Path("large.json").write_bytes(b'"' + b"x" * 2000 + b'"')
    assert len(read_json("large.json")) == 2000
    with pytest.raises(InputError, match=r"large\.json: more than"):
        read_json("large.json", largest=1999)
    with open("huge.json", "wb") as file:
        file.truncate(1 << 40)  # a terabyte that takes no room
    with pytest.raises(InputError, match=r"huge\.json: more than 64 MB"):
        read_json("huge.json")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_json_is_read_in_the_encodings_people_have(encoding):
    value = {"é": [1, -2.5, None, True, 2**63], "path": NOT_UTF8.encode("ascii", "replace").decode()}
    Path("good.json").write_bytes(json.dumps(value, ensure_ascii=False).encode(encoding))
    assert read_json("good.json") == value


def test_64_levels_are_not_too_deep():
    nested = json.loads("[" * 64 + "]" * 64)
    assert parse_json("[" * 64 + "]" * 64, "x") == nested


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=150)
@given(json_values)
def test_every_json_value_comes_back(value):
    assert parse_json(json.dumps(value), "x") == value
    assert parse_json(json.dumps(value).encode(), "x") == value


@settings(max_examples=300)
@given(
    st.binary(max_size=60) | st.text(max_size=60) | st.text('[]{}":,0123456789eE+-.tfnNaI \\u', max_size=60)
)
@example("[" * 5000)
@example('"\\ud800"')
@example(b"\x00[\x00")
def test_anything_at_all_is_a_value_or_an_input_error(text):
    try:
        parse_json(text, "x")
    except InputError as error:
        assert str(error).startswith("x: ") and "\n" not in str(error)


# ------------------------------------------------------------------------------------------------ publishing


def write(name: str, data: bytes, overwrite: bool = False) -> None:
    with atomic(name, overwrite) as part:
        part.write_bytes(data)


def test_what_is_there_is_kept_unless_overwriting_is_allowed():
    write("out", b"first")
    with pytest.raises(
        InputError, match=r"out: exists already and is kept; .*\(overwrite=True, --overwrite\)"
    ):
        write("out", b"second")
    assert Path("out").read_bytes() == b"first" and listing() == ["out"]
    write("out", b"third", overwrite=True)
    assert Path("out").read_bytes() == b"third" and listing() == ["out"]


@pytest.fixture(params=["links", "no links"])
def disk(request, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk as most are, and one, such as a memory stick's, that knows no hard links."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if request.param == "no links":
        monkeypatch.setattr(os, "link", refuse)


def race(name: str, writers: int) -> list[int]:
    """Which of so many writers, all of them done at the same moment, were told that the name is theirs."""
    outcomes: list[int] = []
    ready = threading.Barrier(writers)

    def writer(number: int) -> None:
        try:
            with atomic(name, overwrite=False) as part:
                part.write_bytes(str(number).encode() * 100)
                ready.wait()
            outcomes.append(number)
        except InputError as error:
            assert "exists already" in str(error)

    threads = [threading.Thread(target=writer, args=(i,)) for i in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_of_many_writers_at_once_exactly_one_succeeds(disk):
    names = sorted(f"out{turn}" for turn in range(20))
    for name in names:
        [winner] = race(name, writers=6)
        assert Path(name).read_bytes() == str(winner).encode() * 100
    assert listing() == names


def test_a_disk_that_fails_while_publishing_leaves_nothing(disk, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="Input/output error") as caught:
        write("out", b"x", overwrite=True)
    assert caught.value.filename == "out" and listing() == []


def test_an_error_of_the_disk_names_the_file_that_people_know():
    with pytest.raises(OSError, match=r"No space left on device: 'out\.png'"), atomic("out.png"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(OSError, match=r"'out\.png'"), atomic("out.png") as part:
        part.unlink()
        part.read_bytes()
    with pytest.raises(OSError, match="'other'"), atomic("out.png"):
        Path("other").read_bytes()
    assert listing() == []


def test_a_written_file_has_the_rights_the_umask_gives_and_the_umask_is_left_alone():
    before = os.umask(0o027)
    try:
        write("out", b"")
        with new_folder(Path("folder")):
            pass
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert os.stat("out").st_mode & 0o777 == 0o640 and os.stat("folder").st_mode & 0o777 == 0o750


def test_names_as_long_as_the_disk_allows_can_be_written():
    name = "x" * 251 + ".png"
    write(str(check_output(name)), b"")
    assert listing() == [name]


# ------------------------------------------------------------------------------------------------ leftovers

HANG = """if True:
    import sys, time
    from pathlib import Path
    from mast.files import atomic, new_folder
    with {how} as part:
        print(part, flush=True)
        time.sleep(600)
"""


def killed(how: str) -> Path:
    """What a process that was killed while writing left behind."""
    process = subprocess.Popen(
        [sys.executable, "-c", HANG.format(how=how)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    part = Path(process.stdout.readline().strip())
    assert part.exists()
    write("other", b"", overwrite=True)
    assert part.exists(), "its process is alive"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert part.exists()
    return part


@pytest.mark.parametrize("how", ["atomic(Path('sheet.png'))", "new_folder(Path('data'))"])
def test_what_a_killed_process_left_is_removed_by_the_next_that_writes_there(how):
    part = killed(how)
    write("out", b"")
    assert not part.exists() and listing() == ["other", "out"]


def aged(path: str, days: float) -> str:
    then = time.time() - days * 86400
    os.utime(path, (then, then))
    return path


def test_of_other_machines_only_what_is_days_old_is_removed():
    mine = killed("atomic(Path('sheet.png'))").name
    foreign = re.sub(r"^\.mast-[0-9a-f]{8}", ".mast-00000000", mine)
    Path(foreign).write_bytes(b"")
    remove_leftovers(Path("."))
    assert listing() == [foreign, "other"]
    aged(foreign, 1)
    remove_leftovers(Path("."))
    assert foreign in listing()
    aged(foreign, 3)
    remove_leftovers(Path("."))
    assert listing() == ["other"]


def test_nothing_but_our_own_is_removed(tmp_path):
    name = killed("atomic(Path('sheet.png'))").name
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("mine")
    for other in (".mast-notes", ".sheet-ab12cd34.png", ".mast-12345678-1-zz.png", name[1:], name + "x.y"):
        Path(other).write_text("mine")
        aged(other, 30)
    link = name[:-5] + "0.png" if name[-5] != "0" else name[:-5] + "1.png"
    os.symlink(tmp_path / "precious", link)
    remove_leftovers(Path("."))
    assert name not in listing() and len(listing()) == 7
    assert (tmp_path / "precious" / "file").read_text() == "mine"


def test_a_folder_that_was_being_replaced_when_the_power_went_gets_its_name_back():
    part = killed("new_folder(Path('data'))")
    aside = Path(f"{part.name[:-4]}0000.aside")
    for name in ("data", "other-data"):
        (aside / name).mkdir(parents=True)
        (aside / name / "old").write_text(name)
    Path("other-data").mkdir()
    remove_leftovers(Path("."))
    assert listing() == ["data", "other", "other-data"]
    assert Path("data/old").read_text() == "data" and listing("other-data") == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_folder_is_not_lost_when_replacing_it_is_interrupted(error, monkeypatch):
    Path("data").mkdir()
    Path("data/old").write_text("mine")
    rename, calls = os.rename, []

    def interrupted(source, target):
        calls.append(target)
        if len(calls) == 2:  # the old folder is aside, the new one not yet in place
            raise error(errno.EIO, "interrupted")
        rename(source, target)

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises((KeyboardInterrupt, InputError)), new_folder(Path("data")) as part:
        (part / "new").write_text("")
    assert listing() == ["data"] and Path("data/old").read_text() == "mine"


# ------------------------------------------------------------------------------------------------ outputs


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "the output has no name; give a file name"),
        (".", "this is a folder; give a file name"),
        ("/", "this is a folder; give a file name"),
        ("..", "this is a folder"),
        ("x" * 252 + ".png", "cannot be written .*name too long"),
        ("é" * 126 + "x.png", "cannot be written .*name too long"),
        ("a/" * 2100 + "x.png", "cannot be written .*name too long"),
        ("a\0.png", r"a\\x00.png: cannot be written"),
        ("\ud800.png", "cannot be written"),
        ("loop.png", "loop.png: "),
        ("loop/out.png", "cannot be written"),
        ("pipe.png", "pipe.png: "),
        ("file/out.png", "file is a file, not a folder"),
        ("gone/out.png", "gone: no such folder; create it first"),
    ],
)
def test_an_output_that_could_not_be_written_is_refused_before_the_work(path, says, overwrite):
    os.symlink("loop.png", "loop.png")
    os.symlink("loop", "loop")
    os.mkfifo("pipe.png")
    Path("file").write_text("")
    with pytest.raises(InputError, match=says) as caught:
        check_output(path, overwrite)
    str(caught.value).encode()
    assert len(listing()) == 4


@pytest.mark.parametrize("path", [None, 3, b"out.png", ["out.png"]])
def test_an_output_that_is_no_path_is_refused_in_words_of_python(path):
    with pytest.raises(InputError, match=f"the output is given as {type(path).__name__}; give a path"):
        check_output(path)


def test_a_link_that_leads_nowhere_is_there():
    os.symlink("nowhere", "out.png")
    with pytest.raises(InputError, match="exists already"):
        check_output("out.png")
    write(str(check_output("out.png", overwrite=True)), b"x", overwrite=True)
    assert Path("out.png").read_bytes() == b"x" and not Path("nowhere").exists()


def test_the_message_speaks_to_both_audiences():
    Path("out.png").write_text("")
    with pytest.raises(InputError) as caught:
        check_output("out.png")
    assert "overwrite=True, --overwrite" in str(caught.value) and "add --overwrite" not in str(caught.value)


def test_outputs_are_never_inputs_by_whatever_name():
    Path("photo.png").write_text("photo")
    Path("below").mkdir()
    os.symlink("photo.png", "link.png")
    os.link("photo.png", "hard.png")
    os.symlink("..", "below/up")
    for output in (
        "photo.png",
        "./photo.png",
        "below/../photo.png",
        "below/up/photo.png",
        "link.png",
        "hard.png",
    ):
        for given_as in ("photo.png", Path("photo.png"), os.path.abspath("photo.png"), "photo.png#ff0000"):
            with pytest.raises(InputError, match="this is one of the inputs; choose another name"):
                check_outputs(["new.png", output], [None, 3, given_as], overwrite=True)
    assert Path("photo.png").read_text() == "photo"
    assert check_outputs(["new.png"], ["photo.png", "gone.png", "a\0b"]) == [Path("new.png")]


def test_an_input_that_is_not_there_yet_is_known_by_its_place():
    Path("below").mkdir()
    with pytest.raises(InputError, match="one of the inputs"):
        check_outputs(["below/../out.png"], ["out.png"])


def test_two_outputs_of_one_name_are_refused():
    Path("below").mkdir()
    with pytest.raises(InputError, match="two outputs would have this name"):
        check_outputs(["run.json", "below/../run.json"])
    assert check_outputs(["run.json", "run.png"]) == [Path("run.json"), Path("run.png")]


def test_outputs_are_checked_as_one_output_is():
    Path("out.json").write_text("")
    with pytest.raises(InputError, match="exists already"):
        check_outputs(["out.png", "out.json"])
    assert check_outputs(["out.png", "out.json"], overwrite=True)
    with pytest.raises(InputError, match="must end in"):
        check_outputs(["out.txt"], suffixes=(".png",))


@pytest.mark.parametrize("base", ["", "relative"])
def test_a_cache_folder_is_never_relative_by_accident(monkeypatch, base):
    monkeypatch.delenv("MAST_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_folder() == Path("/home/somebody/.cache/mast")
