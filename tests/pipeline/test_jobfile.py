"""Job files: read as they are meant, refused with their line, and written so that they read the same."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from mast.job import InputError, Job, Region
from mast.pipeline.jobfile import JobFile, jobfile_of_record, jobfile_text, read_jobfile, write_jobfile
from mast.pipeline.provenance import load_record
from mast.pipeline.toml import read_toml
from tests.tiny import halves, picture

WHOLE = """\
# the cat
photo = "photo.png"
output = "out.png"
method = "mast:lam=0.1,ddi=off"

[settings]
preset = "fast"
size = 64

[[region]]
name = "cat"
style = "a.png"
mask = "left.png"
strength = 0.5

[[region]]
style = "b.png"
style_mask = "left.png"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """photo.png (64x64), a.png, b.png, left.png, map.png (red left, green right)."""
    picture(64, 64, 1).save(tmp_path / "photo.png")
    picture(64, 64, 2).save(tmp_path / "a.png")
    picture(64, 64, 3).save(tmp_path / "b.png")
    left, _ = halves(64, 64)
    Image.fromarray((left * 255).astype(np.uint8)).save(tmp_path / "left.png")
    colours = np.zeros((64, 64, 3), np.uint8)
    colours[:, :32, 0], colours[:, 32:, 1] = 255, 255
    Image.fromarray(colours).save(tmp_path / "map.png")
    np.save(tmp_path / "labels.npy", left.astype(np.int32) + 1)
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "job.toml"
    path.write_text(text)
    return path


def test_what_a_job_file_says(folder: Path) -> None:
    found = read_jobfile(write(folder, WHOLE))
    assert found.job.content == folder / "photo.png"
    cat, rest = found.job.regions
    assert (cat.style, cat.mask, cat.strength, cat.style_mask) == (
        folder / "a.png", str(folder / "left.png"), 0.5, None,
    )  # fmt: skip
    assert (rest.style, rest.mask, rest.strength, rest.style_mask) == (
        folder / "b.png", None, 1.0, folder / "left.png",
    )  # fmt: skip
    assert found.names == ("cat", "rest")
    assert found.method == "mast:lam=0.1,ddi=off" and found.model == "preview" and found.auto is None
    assert found.settings == {"preset": "fast", "size": 64} and found.output == folder / "out.png"


def test_paths_are_relative_to_the_file_and_not_to_where_one_stands(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write(folder, WHOLE)
    monkeypatch.chdir(folder)
    near = read_jobfile("job.toml")
    assert near.job.content == Path("photo.png")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert Path(str(read_jobfile(folder / "job.toml").job.content)).is_file()


@pytest.mark.parametrize("text", ['mask = "rest"', 'mask = ""', "# nothing"])
def test_the_rest(folder: Path, text: str) -> None:
    found = read_jobfile(write(folder, f'photo = "photo.png"\n[[region]]\nstyle = "a.png"\n{text}\n'))
    assert found.job.regions[0].mask is None and found.names == ("rest",)


@pytest.mark.parametrize("mask", ["map.png#ff0000", "labels.npy#label-2", "{photo}-left.png"])
def test_masks_by_every_way_of_naming_them(folder: Path, mask: str) -> None:
    from mast.pipeline import read_job

    os.rename(folder / "left.png", folder / "photo-left.png")
    text = f'photo = "photo.png"\n[[region]]\nstyle = "a.png"\nmask = "{mask}"\n'
    found = read_jobfile(write(folder, text))
    left = read_job(found.job).masks[0].numpy()
    assert (left[:, :32] == 1).all() and (left[:, 32:] == 0).all()


def test_a_photo_of_ones_own_and_regions_that_are_to_be_found(folder: Path) -> None:
    text = '[[region]]\nstyle = "a.png"\nmask = "masks/{photo}-left.png"\n[[region]]\nstyle = "b.png"\n'
    with pytest.raises(InputError, match=r"job\.toml:1: no photo; add photo = "):
        read_jobfile(write(folder, text))
    with pytest.raises(InputError, match=r"job\.toml:3: .*photo-left\.png: no such file"):
        read_jobfile(write(folder, text), folder / "photo.png")
    (folder / "masks").mkdir()
    os.rename(folder / "left.png", folder / "masks" / "photo-left.png")
    found = read_jobfile(write(folder, text), folder / "photo.png")
    assert found.job.regions[0].mask == str(folder / "masks" / "photo-left.png")
    assert found.names == ("left", "rest")
    auto = read_jobfile(write(folder, text), folder / "photo.png", auto=2)
    assert [region.mask for region in auto.job.regions] == [None, None]
    assert auto.auto == 2 and auto.names == ("object", "background")


# ------------------------------------------------------------ what is wrong, and where


def changed(old: str, new: str) -> str:
    assert old in WHOLE
    return WHOLE.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (changed("photo =", "foto ="), r":2: a job file has no 'foto'; did you mean photo\? \(there are "),
        (changed("mask = ", "msak = "), r":13: a region has no 'msak'; did you mean mask\?"),
        (changed("size = 64", "sise = 64"), r":8: \[settings\] has no 'sise'; did you mean size\?"),
        (changed("size = 64", 'keep = "exact"'), r":8: .*did you mean keep_unassigned\?"),
        (changed("size = 64", "size = 3"), r":8: size is 3; it must be a whole number of pixels from 64"),
        (changed("size = 64", "size = true"), r":8: size is True; it must be"),
        (changed("size = 64", "steps = 1.5"), r":8: steps is 1\.5; it must be a whole number"),
        (changed("size = 64", "refine = nan"), r":8: refine is nan; it must be above 0"),
        (changed("size = 64", 'fit = "crop"'), r":8: fit is 'crop'; choose one of resize, pad"),
        (changed("size = 64", "fit = [1]"), r":8: fit is \[1\]; choose one of"),
        (changed("size = 64", 'cache = "no"'), r":8: cache is 'no'; write true or false"),
        (changed('"fast"', '"quick"'), r":7: preset 'quick' is not known; choose one of paper, fast"),
        (changed('"fast"', "3"), r":7: preset is a whole number \(3\); it must be text"),
        (changed('"photo.png"', "7"), r":2: photo is a whole number \(7\); it must be text, as in photo = "),
        (changed('"photo.png"', "1979-05-27"), r":2: photo is a date or time; it must be text"),
        (changed('"photo.png"', '"gone.png"'), r":2: .*gone\.png: no such file; give the path of the photo"),
        (changed('"photo.png"', r'"a\u0000b"'), r":2: photo holds a NUL"),
        (changed('"a.png"', '"gone.png"'), r":12: .*gone\.png: no such file; give the path of the style im"),
        (changed('"a.png"', '""'), r":12: style is empty; write the path of the style image there"),
        (changed('mask = "left.png"', 'mask = "gone.png"'), r":13: .*gone\.png: no such file; give a mask"),
        (changed('mask = "left.png"', 'mask = "gone.png#ff0000"'), r":13: .*gone\.png: no such file"),
        (
            changed('mask = "left.png"', ""),
            r":16: a second region without a mask, beside region 1; .*auto = ",
        ),
        (changed('style = "a.png"', ""), r":10: a region without a style; add style = "),
        (changed("strength = 0.5", "strength = 1.5"), r":14: strength is 1\.5; it must be above 0 and at mo"),
        (changed("strength = 0.5", "strength = inf"), r":14: strength is inf; write a number"),
        (changed("strength = 0.5", 'strength = "1"'), r":14: strength is text \(1\); it must be a number"),
        (changed("strength = 0.5", "strength = true"), r":14: strength is true or false"),
        (changed('style = "b.png"', 'style = "b.png"\nname = "cat"'), r":18: region 1 is called 'cat' too"),
        (changed('name = "cat"', 'name = " "'), r":11: .*give a name of 1 to 100 letters"),
        (WHOLE + '[[region]]\nstyle = "a.png"\nmask = "left.png"\n', r":19: the same style and mask as reg"),
        (changed("mast:lam=0.1", "masr:lam=0.1"), r":4: no method is called 'masr'; did you mean 'mast'"),
        (changed("lam=0.1", "lam=much"), r":4: .*lam is 'much'; write a number"),
        (changed("lam=0.1", "lam=7"), r":4: lam"),
        (changed('"out.png"', '"out.bmp"'), r":3: 'out\.bmp' must end in \.png or "),
        ("auto = 3\n" + WHOLE, r":14: auto = 3 finds the regions itself; leave the mask out"),
        ("auto = 1\n" + WHOLE, r":1: auto is 1: give a number of regions from 2 to 16"),
        (
            'auto = 3\nphoto = "photo.png"\n[[region]]\nstyle = "a.png"\n',
            r":1: auto = 3, but there are 1 regions; write a \[\[region\]\] for each",
        ),
        ('photo = "photo.png"\n', r":1: no region; add \[\[region\]\] with style = "),
        ('photo = "photo.png"\nregion = 3\n', r":2: region is a whole number \(3\); write \[\[region\]\]"),
        ('photo = "photo.png"\n[region]\nstyle = "a.png"\n', r":2: region is a table; write \[\[region\]\]"),
        ('photo = "photo.png"\nsettings = 3\n[[region]]\nstyle = "a.png"\n', r":2: settings is a whole num"),
        ('photo = "photo.png"\nregion = [{ stlye = "a.png" }]\n', r":2: a region has no 'stlye'; did you "),
        ('photo = "photo.png"\nsettings.size = 3\n[[region]]\nstyle = "a.png"\n', r":2: size is 3"),
        ('photo = "photo.png"\nx = """\n[[region]]\n"""\n', r":2: a job file has no 'x'"),
        ('photo = "photo.png"\n\n[[region]]\nstyle = [\n"a",\n]\nfoo = 1\n', r":7: a region has no 'foo'"),
        ('photo = "photo.png"\n\n[[region]]\nstyle = [\n"a",\n]\n', r":4: style is a list; it must be text"),
        ("photo = photo.png\n", r":1: this is not TOML \(.*\); see docs/jobs\.md"),
        ('photo = "photo.png"\nphoto = "a.png"\n', r":2: this is not TOML \(Cannot overwrite a value"),
        ('photo = "photo.png\n', r":1: this is not TOML"),
        ("photo = 'photo.png'\n[settings\n", r":2: this is not TOML"),
        ('photo = """\n\n', r":\d: this is not TOML"),
        ("", r":1: no photo; add photo = "),
        ("x = " + "[" * 5000 + "]" * 5000, r": nested far too deep"),
        ("x = " + "9" * 6000, r":1: "),
    ],
)
def test_what_is_wrong_is_said_with_its_line(folder: Path, text: str, said: str) -> None:
    path = write(folder, text)
    with pytest.raises(InputError) as error:
        read_jobfile(path)
    assert re.match(re.escape(str(path)) + said, str(error.value)), error.value


def test_what_is_no_job_file_at_all(folder: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.toml: no such file; give the path of the job file"):
        read_jobfile(folder / "gone.toml")
    with pytest.raises(InputError, match="this is a folder"):
        read_jobfile(folder)
    (folder / "latin.toml").write_bytes(b'photo = "photo.png"\n# caf\xe9\n')
    with pytest.raises(InputError, match=r"latin\.toml:2: this is no text in UTF-8"):
        read_jobfile(folder / "latin.toml")
    (folder / "large.toml").write_bytes(b"#" * (1 << 20))
    with pytest.raises(InputError, match=r"large\.toml: more than 256 kB"):
        read_jobfile(folder / "large.toml")
    (folder / "dos.toml").write_bytes(b"\xef\xbb\xbf" + WHOLE.replace("\n", "\r\n").encode())
    assert read_jobfile(folder / "dos.toml").names == ("cat", "rest")


def test_a_part_that_is_not_there_is_named_with_those_that_are(folder: Path) -> None:
    from mast.pipeline import read_job

    for mask, said in (
        (
            "labels.npy#label-9",
            r"labels\.npy: has 2 regions, and none is called 'label-9'; did you mean 'label-",
        ),
        (
            "labels.npy",
            r"has 2 regions, and one must be named; write labels\.npy#NAME \(there are label-1, lab",
        ),
    ):
        text = f'photo = "photo.png"\n[[region]]\nstyle = "a.png"\nmask = "{mask}"\n'
        with pytest.raises(InputError, match=said):
            read_job(read_jobfile(write(folder, text)).job)


VALUES = st.one_of(
    st.text(max_size=8),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.booleans(),
    st.sampled_from(["photo.png", "a.png", "left.png", "mast", "fast", "rest"]),
)
KEYS = st.sampled_from(
    ["photo", "output", "method", "auto", "model", "name", "style", "mask", "strength", "style_mask", "size",
     "steps", "preset", "refine", "coarse", "x"]
)  # fmt: skip
LINES = st.one_of(
    st.sampled_from(["[settings]", "[[region]]", "[region]", "", "# x", "[[settings]]", "[region.style]"]),
    st.tuples(KEYS, VALUES).map(lambda pair: f"{pair[0]} = {toml(pair[1])}"),
    st.text(max_size=12),
)


def toml(value: object) -> str:
    if isinstance(value, str):
        return '"' + value.encode("unicode_escape").decode().replace('"', "'") + '"'
    return str(value).lower() if isinstance(value, (bool, float)) else str(value)


@given(lines=st.lists(LINES, max_size=12))
def test_any_text_is_a_job_or_refused_in_words(folder: Path, lines: list[str]) -> None:
    path = folder / "job.toml"
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    try:
        found = read_jobfile(path)
    except InputError as error:
        text = str(error)
        assert text.startswith(str(path)), text
        line = re.match(re.escape(str(path)) + r":(\d+): ", text)
        assert line is None or 1 <= int(line[1]) <= len(lines) + 1
    else:
        assert found.job.regions or found.method.startswith("reconstruct")


@given(data=st.binary(max_size=200))
def test_any_bytes_are_refused_in_words(folder: Path, data: bytes) -> None:
    path = folder / "job.toml"
    path.write_bytes(data)
    with pytest.raises(InputError):
        read_jobfile(path)


def test_lines_of_statements_that_span_several(folder: Path) -> None:
    text = 'a = """\n[b]\nc = 1\n"""\nd = [\n  1,\n]\n[e]\n"f g" = 1\nh.i = 2\n[[j]]\nk = 1\n[[j]]\nk = 2\n'
    file = read_toml(write(folder, text), "file")
    wanted = {("a",): 1, ("d",): 5, ("e",): 8, ("e", "f g"): 9, ("e", "h", "i"): 10, ("j", 0): 11}
    wanted |= {("j", 0, "k"): 12, ("j", 1): 13, ("j", 1, "k"): 14, ("e", "nothing"): 8, ("x",): 1}
    assert {key: file.line(key) for key in wanted} == wanted


# ------------------------------------------------------------ writing


def assert_same(a: JobFile, b: JobFile) -> None:
    def plain(one: JobFile) -> object:
        files = [one.job.content, one.output]
        files += [f for r in one.job.regions for f in (r.style, r.mask, r.style_mask)]
        paths = [None if f is None else os.path.abspath(str(f)) for f in files]
        strengths = [r.strength for r in one.job.regions]
        return paths, strengths, one.names, one.method, one.settings, one.model, one.prediction_type, one.auto

    assert plain(a) == plain(b)


def test_what_is_written_reads_the_same(folder: Path) -> None:
    first = read_jobfile(write(folder, WHOLE))
    (folder / "deep" / "er").mkdir(parents=True)
    write_jobfile(first, folder / "deep" / "er" / "again.toml")
    text = (folder / "deep" / "er" / "again.toml").read_text()
    assert 'photo = "../../photo.png"' in text and text.count("#") >= 3
    assert_same(read_jobfile(folder / "deep" / "er" / "again.toml"), first)


NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\0"), min_size=1, max_size=12
)


@given(
    name=NAMES.filter(lambda t: t.strip() == t and t.isprintable()),
    file=NAMES,
    strength=st.floats(0, 1, exclude_min=True),
    steps=st.integers(2, 1000),
    refine=st.floats(0, 1, exclude_min=True),
    lam=st.floats(0, 1),
    tau=st.one_of(st.floats(0.1, 9), st.tuples(*[st.floats(0.01, 2)] * 3)),
    colour=st.booleans(),
)
def test_anything_that_can_be_said_is_written_and_read(
    folder: Path,
    name: str,
    file: str,
    strength: float,
    steps: int,
    refine: float,
    lam: float,
    tau: object,
    colour: bool,
) -> None:
    from mast.methods.spec import parse_method, write_method

    mask = folder / f"mask {file}.png"
    (folder / "map.png").rename(mask)
    try:
        made = JobFile(
            Job(
                folder / "photo.png",
                (Region(folder / "a.png", f"{mask}#00ff00" if colour else mask, strength),),
            ),
            (name,),
            write_method("mast", {"lam": lam, "tau": tau}),
            {"steps": steps, "refine": refine, "cache": False, "size": "auto"},
        )
        path = folder / "made.toml"
        write_jobfile(made, path, overwrite=True)
        found = read_jobfile(path)
        assert_same(found, made)
        assert parse_method(found.method).options == {"lam": lam, "tau": tau}
    finally:
        mask.rename(folder / "map.png")


def test_what_cannot_be_written(folder: Path) -> None:
    made = read_jobfile(write(folder, WHOLE))
    with pytest.raises(InputError, match=r"job\.toml: exists already and is kept"):
        write_jobfile(made, folder / "job.toml")
    assert (folder / "job.toml").read_text() == WHOLE
    with pytest.raises(InputError, match=r"must end in \.toml"):
        write_jobfile(made, folder / "job.txt")
    pixels = JobFile(Job(np.zeros((8, 8, 3), np.uint8), (Region(folder / "a.png"),)))
    with pytest.raises(InputError, match="the photo is given as ndarray, and a job file names files"):
        jobfile_text(pixels, folder)
    with pytest.raises(InputError, match="the name is no text"):
        jobfile_text(JobFile(Job(os.fsdecode(b"caf\xe9.png"), ())), folder)
    with pytest.raises(InputError, match="1 names for 0 regions"):
        JobFile(Job("photo.png"), ("a",))


def test_a_style_that_is_to_be_filled_in(folder: Path) -> None:
    made = JobFile(Job(folder / "photo.png", (Region("", folder / "left.png"),)), ("cat",))
    path = folder / "made.toml"
    write_jobfile(made, path)
    assert 'style = ""  # the path of the style image' in path.read_text()
    with pytest.raises(
        InputError, match=r"made\.toml:\d+: style is empty; write the path of the style image"
    ):
        read_jobfile(path)


# ------------------------------------------------------------ records


def test_a_record_as_a_job_file_paints_the_same_bits(
    folder: Path, tiny_backbone, tiny_sd_folder: Path
) -> None:
    from mast import stylize
    from mast.pipeline import default_method, default_settings

    job = Job(
        folder / "photo.png",
        (Region(folder / "a.png", f"{folder / 'map.png'}#ff0000", 0.3), Region(folder / "b.png")),
    )
    settings = default_settings(tiny_backbone, steps=3, size=64)
    first = stylize(
        job, tiny_backbone, default_method(tiny_backbone, "mast", tau=(0.11, 0.65, 1.0)), settings
    )
    (folder / "made").mkdir()
    first.save(folder / "made" / "out.png")
    made = jobfile_of_record(load_record(folder / "made" / "out.png"), folder / "made")
    write_jobfile(made, folder / "again.toml")
    found = read_jobfile(folder / "again.toml")
    assert Path(found.model).resolve() == tiny_sd_folder.resolve()
    assert found.names == ("ff0000", "rest")
    method, settings = found.method_for(tiny_backbone), found.settings_for(tiny_backbone)
    again = stylize(found.job, tiny_backbone, method, settings)
    assert again.provenance == first.provenance
    assert np.array_equal(np.asarray(again.image), np.asarray(first.image))
