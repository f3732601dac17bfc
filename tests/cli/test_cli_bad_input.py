"""Bad input: exit 2, one line that names it and shows a way out, and not a file made or changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.damaged import BAD_KINDS, write_bad
from tests.tiny import picture


def save_mask(name: str, mask: np.ndarray) -> None:
    Image.fromarray((mask * 255).astype(np.uint8)).save(name)


# -------------------------------------------------------------------------------- files


@pytest.mark.parametrize("kind", BAD_KINDS)
@pytest.mark.parametrize("role", ["photo", "mask", "style"])
def test_a_bad_file(refused, folder: Path, role: str, kind: str):
    name, says = write_bad(folder, kind)
    files = {"photo": "photo.png", "mask": "left.png", "style": "a.png", role: name}
    line = refused("stylize", files["photo"], "-r", f"{files['mask']}={files['style']}", "-o", "out.png")
    assert line.startswith(f"mast: {name}: ") and says in line and ";" in line


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("gone.png", "-r", "=a.png"), "gone.png: no such file; give the path of the photo"),
        (("photo.png", "-r", "gone.png=a.png"), "gone.png: no such file; give the path of the mask"),
        (("photo.png", "-r", "=gone.png"), "gone.png: no such file; give the path of the style image"),
        ((".", "-r", "=a.png"), ".: this is a folder; give the path of the photo"),
        (
            ("photo.png", "-r", "=a.png", "--style-mask", "1=gone.png"),
            "gone.png: no such file; give the path",
        ),
        (("photo.png", "--map", "gone.png", "-s", "#ff0000=a.png"), "gone.png: no such file; give the path"),
    ],
)
def test_a_file_that_is_not_there(refused, arguments: tuple[str, ...], says: str):
    assert says in refused("stylize", *arguments, "-o", "out.png")


def test_bad_pictures_are_refused_before_a_model_is_loaded(refused, folder: Path, model: Path):
    write_bad(folder, "empty")
    for arguments in (
        ("zero.png", "-r", "=a.png"),
        ("photo.png", "-r", "=zero.png"),
        ("photo.png", "-r", "=a.png", "--style-mask", "1=zero.png"),
    ):
        assert "0 bytes" in refused("stylize", *arguments, "-o", "out.png", "--model", "no-such-model")


# -------------------------------------------------------------------------------- regions


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "no region given; add -r MASK=STYLE"),
        (("-r", "left.png="), "this is not a region; write MASK=STYLE"),
        (("-r", "=a.png", "-r", "=b.png"), "regions 1, 2 have no mask; only one"),
        (("-r", "left.png=a.png@0"), "-r left.png=a.png@0: the strength is 0; it must be above 0"),
        (("-r", "left.png=a.png@1.5"), "the strength is 1.5; it must be above 0 and at most 1"),
        (("-r", "left.png=a.png@nan"), "the strength is nan"),
        (("-r", "left.png=a.png@much"), "'much' after @ is not a number; write the strength as in STYLE@0.7"),
        (
            ("-r", "left.png=a.png", "-r", "right.png=b.png", "-r", "=b.png"),
            "leave nothing over; give it a mask",
        ),
        (("-s", "#ff0000=a.png"), "-s needs --map MAP.png"),
        (("--map", "map.png"), "--map map.png needs a style per colour"),
        (("--map", "map.png", "-s", "red=a.png"), "'red' is not a colour; write it as '#RRGGBB'"),
        (
            ("--map", "map.png", "-s", "#ff0000=a.png", "-s", "#123456=b.png"),
            "map.png: no pixel has the colour #123456; colours there without a style: ",
        ),
        (("-r", "=a.png", "--style-mask", "2=left.png"), "--style-mask 2=left.png: write N=FILE"),
    ],
)
def test_bad_regions(refused, arguments: tuple[str, ...], says: str):
    assert says in refused("stylize", "photo.png", *arguments, "-o", "out.png")


def test_a_mask_of_another_shape(refused):
    picture(64, 96).save("tall.png")
    line = refused("stylize", "photo.png", "-r", "tall.png=a.png", "-o", "out.png")
    assert "region 1 (tall.png): the mask is 64x96, the photo 96x64: another shape; make the mask on" in line


@pytest.mark.parametrize("mode", ["L", "RGBA"])
def test_an_empty_mask(refused, mode: str):
    Image.new(mode, (96, 64), 0).save("black.png")
    line = refused("stylize", "photo.png", "-r", "right.png=b.png", "-r", "black.png=a.png", "-o", "out.png")
    assert "region 2 (black.png): the mask is empty (all black); paint the region white" in line


def test_a_mask_that_vanishes_at_depth(refused, model: Path):
    dot = np.zeros((64, 96))
    dot[10:12, 10:12] = 1
    save_mask("dot.png", dot)
    line = refused(
        "stylize", "photo.png", "-r", "dot.png=a.png", "-o", "o.png", "--model", model, "--size", 64
    )
    assert "region 1 (dot.png): the region covers 4 px of the photo" in line and "vanishes" in line
    assert "enlarge the mask or work at a larger --size" in line


def test_a_style_mask_of_another_shape_and_one_that_is_too_small(refused, model: Path):
    shared = ("stylize", "photo.png", "-r", "=a.png", "-o", "out.png", "--model", model, "--size", 64)
    line = refused(*shared, "--style-mask", "1=left.png")
    assert (
        "style mask of region 1 (left.png): the mask is 96x64, the style image 64x64: another shape" in line
    )
    dot = np.zeros((64, 64))
    dot[10:12, 10:12] = 1
    save_mask("dot.png", dot)
    assert "covers no whole cell of the" in refused(*shared, "--style-mask", "1=dot.png")


# -------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--pi", "0"), "pi is 0.0; it must be above 0 and at most 1"),
        (("--pi", "1.5"), "pi is 1.5; it must be above 0 and at most 1"),
        (("--pi", "nan"), "pi is nan"),
        (("--lam", "-0.1"), "lam is -0.1; it must be from 0 and at most 1"),
        (("--lam", "1.01"), "lam is 1.01"),
        (("--lam", "nan"), "lam is nan"),
        (("--r", "0"), "r is 0.0; it must be above 0"),
        (("--r", "nan"), "r is nan"),
        (("--r", "inf"), "r is inf"),
        (("--tau", "warm"), "--tau warm: give one factor (1.5) or three coefficients (A/B/C)"),
        (("--tau", "1,2"), "--tau 1,2: 2 numbers; give one factor"),
        (("--tau", "nan"), "tau is nan; its numbers must be finite"),
        (("--tau", "1,nan,2"), "its numbers must be finite"),
        (("--tau", "0"), "tau is 0.0; a fixed factor must be above 0"),
        (("--tau", ""), "give one factor (1.5) or three coefficients"),
        (("--steps", "0"), "steps is 0; it must be a whole number from 2 to 1000"),
        (("--steps", "1"), "steps is 1"),
        (("--steps", "-5"), "steps is -5"),
        (("--size", "10"), "size is 10; it must be a whole number of pixels from 64"),
        (("--windows", "many"), "windows is many; it must be a whole number of pixels from 64"),
        (("--fit", "crop"), "fit is 'crop'; choose one of resize, pad"),
        (("--keep", "some"), "is 'some'; choose one of reconstruct, exact"),
        (("--inversion", "exact"), "inversion is 'exact'; choose one of plain, refined"),
        (("--features", "disk"), "features is 'disk'; choose one of auto, memory, replay"),
        (("--preset", "papre"), "preset 'papre' is not known; choose one of paper, fast"),
        (("--method", "masst"), "no method is called 'masst'; did you mean 'mast'?"),
        (("--method", "reconstruct", "--pi", "0.5"), "method 'reconstruct' has no option 'pi'"),
        (("--device", "gpu"), "device 'gpu' is not known; choose auto, cpu, cuda or mps"),
        (("--dtype", "int8"), "dtype 'int8' is not known; choose auto, float32"),
        (("--device", "cpu", "--dtype", "float16"), "on a CPU use --dtype float32"),
        (
            ("--model", "nosuch"),
            "nosuch: no such model; give 'preview', a folder, a .safetensors file or a hub id",
        ),
        (("--model", "no/such/model.safetensors"), "no/such/model.safetensors: no such model"),
        (("--model", "."), "no unet/config.json in this folder; give a diffusers model folder"),
        (("--model", "a.png"), "a.png"),
    ],
)
def test_bad_settings(refused, arguments: tuple[str, ...], says: str):
    assert says in refused("stylize", "photo.png", "-r", "=a.png", "-o", "out.png", *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("stylize",),
        ("stylize", "photo.png", "--pi", "much"),
        ("stylize", "photo.png", "--steps", "2.5"),
        ("stylize", "photo.png", "--bogus"),
        ("stylize", "photo.png", "--preview-every", "-1"),
        ("bogus",),
        ("replay",),
    ],
)
def test_bad_usage_is_exit_2_with_a_hint_and_no_traceback(run, arguments: tuple[str, ...]):
    outcome = run(*arguments)
    assert outcome.code == 2 and outcome.out == ""
    assert "--help" in outcome.err and "Traceback" not in outcome.err


# -------------------------------------------------------------------------------- outputs


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("out.gif", "out.gif: the output must end in .png"),
        ("out", "out: the output must end in .png"),
        ("no/such/out.png", "no/such: no such folder; create it first (mkdir -p no/such)"),
        ("photo.png/out.png", "photo.png is a file, not a folder; choose another folder"),
        ("/proc/out.png", "/proc/out.png: cannot be written"),
        ("folder.png", "folder.png: this is a folder; give a file name for the output"),
        ("old.png", "old.png: exists already and is kept; choose another name or allow overwriting"),
    ],
)
def test_a_bad_output(refused, output: str, says: str):
    Path("folder.png").mkdir()
    Path("old.png").write_bytes(b"kept bit by bit")
    assert says in refused("stylize", "photo.png", "-r", "=a.png", "-o", output)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("out.json", ()),
        ("out.sheet.png", ("--contact-sheet",)),
        ("out.mask1.png", ("--save-masks",)),
        ("out.preview.png", ("--preview-every", "1")),
    ],
)
def test_no_file_beside_the_output_is_replaced_unasked(refused, name: str, arguments: tuple[str, ...]):
    Path(name).write_bytes(b"kept bit by bit")
    line = refused("stylize", "photo.png", "-r", "=a.png", "-o", "out.png", *arguments)
    assert f"{name}: exists already and is kept" in line


def test_no_input_is_ever_written_over(refused):
    Path("out.mask1.png").write_bytes(Path("left.png").read_bytes())
    for arguments in (
        ("-r", "left.png=a.png", "-o", "photo.png"),
        ("-r", "left.png=a.png", "-o", "./a.png"),
        ("-r", "left.png=a.png", "-o", "left.png"),
        ("--map", "map.png", "-s", "#ff0000=a.png", "-o", "map.png"),
        ("-r", "out.mask1.png=a.png", "-o", "out.png", "--save-masks"),
    ):
        line = refused("stylize", "photo.png", *arguments, "--overwrite")
        assert "this is one of the inputs; choose another name for the output" in line


def test_names_with_markup_and_emoji_codes_are_shown_as_they_are(refused):
    for name in ("[bold]x[red].png", "a:cat:b.png"):
        assert f"mast: {name}: no such file" in refused("stylize", name, "-r", "=a.png")


def test_anything_else_is_exit_1_and_says_how_to_see_more(run, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the [disk] is on fire")

    monkeypatch.delenv("MAST_DEBUG", raising=False)
    monkeypatch.setattr("mast.cli.options.RunOptions.check", broken)
    outcome = run("stylize", "photo.png", "-r", "=a.png", "-o", "out.png")
    assert outcome.code == 1
    assert outcome.lines == ["mast: RuntimeError: the [disk] is on fire (MAST_DEBUG=1 shows where)"]
    monkeypatch.setenv("MAST_DEBUG", "1")
    with pytest.raises(RuntimeError):
        run("stylize", "photo.png", "-r", "=a.png", "-o", "out.png")
