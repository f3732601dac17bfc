"""The start: help without torch, the first word before torch, and an end on the spot while it is imported."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mast.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "diffusers", "transformers", "numpy", "PIL", "safetensors", "matplotlib"}
MODULES = 550  # that some help may have imported in the end; torch alone brings 900
HELP = """
import json, sys
import mast.cli
from mast.cli.app import app
from typer.main import get_command

def texts(command, path):
    yield path
    for name in command.list_commands(None) if hasattr(command, "list_commands") else []:
        yield from texts(command.get_command(None, name), [*path, name])

for path in texts(get_command(app), []):
    sys.argv = ["mast", *path, "--help"]
    try:
        mast.cli.main()
    except SystemExit as end:
        assert not end.code, path
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def every_help() -> tuple[str, list[str]]:
    """What every --help prints in one process, 100 columns wide, and which modules that took."""
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", HELP], capture_output=True, text=True, env=environment, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, json.loads(ran.stderr)


def test_no_help_imports_anything_heavy(every_help):
    text, modules = every_help
    assert text.count("Usage: mast") > 25
    assert not HEAVY & {name.partition(".")[0] for name in modules}
    assert len(modules) < MODULES, len(modules)


def test_help_is_in_groups_with_defaults_and_without_kinds(every_help):
    text, _ = every_help
    assert "<bool>" not in text
    stylize = next(part for part in text.split("Usage: ") if part.startswith("mast stylize "))
    panels = re.findall(r"╭─ (.+?) ─+╮", stylize)
    assert panels == ["Arguments", "Regions", "Output", "Method", "Model and settings", "Machine"]
    assert len(re.findall(r"\[default: ", stylize)) > 18
    assert "[default: (the model's; paper: 0.2)]" in stylize and "Content:" in stylize


def test_commands_come_in_the_order_people_need_them(run):
    said = run("--help").out
    names = [line.split()[1] for line in said.splitlines() if re.match(r"│ [a-z]+ {2,}\S", line)]
    assert names == list(COMMANDS)
    assert names[:2] == ["demo", "stylize"] and names[-1] == "study"


def test_a_command_that_is_nearly_right_is_suggested(run):
    outcome = run("stylise")
    assert outcome.code == 2 and "stylize" in outcome.err


def test_importing_mast_is_light_and_every_public_name_is_there():
    code = (
        "import sys, mast; light = len(sys.modules); assert 'torch' not in sys.modules; "
        "assert set(mast.__all__) <= set(dir(mast)); [getattr(mast, name) for name in mast.__all__]; "
        "from mast import *; assert stylize is mast.stylize and recomposite and controlled; "
        "assert mast.__version__; print(light)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) < 150
    import mast

    with pytest.raises(AttributeError, match="no attribute 'stylise'"):
        mast.stylise  # noqa: B018


@pytest.mark.slow
def test_the_example_of_the_package_runs(folder: Path):
    import mast

    example = re.search(r"\n\n((?:    .*\n|\n)+)", mast.__doc__ or "")
    assert example is not None
    for name, given in {"photo.jpg": "photo.png", "waves.png": "a.png", "mosaic.png": "b.png"}.items():
        Path(given).rename(name)
    Path("left.png").rename("sky.png")
    exec("\n".join(line[4:] for line in example[1].splitlines()), {})
    assert Path("out.png").is_file()


# ------------------------------------------------------------------------------------------ the first word


def begin(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "import mast.cli; mast.cli.main()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("demo", "--quick"),
        ("stylize", "photo.png", "-r", "rest=a.png", "-o", "out.png"),
        ("compare", "photo.png", "-r", "rest=a.png"),
        ("replay", "photo.png"),
        ("eval", "."),
        ("analyze", "sts", "photo.png", "-r", "rest=a.png"),
        ("bench", "run", ".", "--out", "out", "-m", "mast"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_the_first_word_comes_before_torch(folder: Path, tmp_path: Path, arguments: tuple[str, ...]):
    stand_in = tmp_path / "stand-in"
    stand_in.mkdir()
    for name in ("torch", "numpy"):
        (stand_in / f"{name}.py").write_text("import os; os._exit(77)")
    process = begin(*arguments, PYTHONPATH=str(stand_in))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 77, err
    assert re.fullmatch(r"loading .+ \.\.\.\n", err), err


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_stopped_while_torch_is_imported(folder: Path, own_cache: Path, name: str):
    before = sorted(os.listdir(folder))
    process = begin("stylize", "photo.png", "-r", "rest=a.png", "-o", "out.png")
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == "loading the model ...\n"
        process.send_signal(getattr(signal, name))
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, err
    assert err == "stopped; nothing half-written is left, finished inversions are kept\n"
    assert sorted(os.listdir(folder)) == before


def test_a_hangup_that_is_ignored_stays_ignored(run):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        assert run("--version").code == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_package_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mast", "stylize", "no-photo.jpg", "-r", "rest=a.png", "-o", "out.png"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 2 and "no-photo.jpg" in done.stderr and "Traceback" not in done.stderr
