"""mast demo: the bundled examples, a contact sheet, and how long it took."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from ..examples import case_job, examples_folder, load_cases
from ..files import atomic, check_output
from ..images import read_rgb
from ..job import InputError, Settings
from ..sheets import Tile, contact_row, sheet
from .app import app, console, progress, say


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="A folder for the pictures.")] = Path("mast-demo"),
    quick: Annotated[bool, typer.Option("--quick", help="One case only.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="All bundled cases, not just three.")] = False,
    model: Annotated[str, typer.Option(help="preview, a hub id, a folder or a checkpoint file.")] = "preview",
    size: Annotated[int, typer.Option(help="Longer side at which the model works.")] = 512,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Keep and use inversions on disk.")
    ] = True,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace pictures of an earlier demo.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the paths of the pictures.")] = False,
) -> None:
    """Stylizes bundled examples with two, three and five regions."""
    began = time.perf_counter() - time.process_time()  # importing torch is the work done so far
    folder = examples_folder()
    cases = load_cases(folder)
    cases = cases[:1] if quick else cases if everything else cases[:3]
    Settings(size=size)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: no folder can be made there ({error.strerror}); choose another") from error
    sheet_path = check_output(out / "contact-sheet.png", overwrite)
    for case in cases:
        check_output(out / f"{case['name']}.png", overwrite)
        check_output(out / f"{case['name']}.json", overwrite, (".json",))
    from ..backbone.load import load
    from ..pipeline.stylize import default_settings, stylize
    from ..regions.masks import read_masks

    imported = time.perf_counter()
    backbone = load(model)
    settings = default_settings(backbone, size=size, cache=None if cache else False)
    table = Table(
        "case", "import", "load", "prepare", "encode", "invert", "denoise", "decode", "total", box=None
    )
    rows: list[list[Tile]] = []
    if not quiet:
        how = f"{settings.steps} steps, {settings.inversion} inversion, {settings.size} px"
        say(f"model {escape(backbone.name)}, {how}, on {backbone.device}")
    loaded = time.perf_counter()
    once = {"import": imported - began, "load": loaded - imported}
    for case in cases:
        job = case_job(case, folder)
        with progress(quiet) as bar:
            result = stylize(job, backbone, "mast", settings, bar)
        result.save(out / f"{case['name']}.png", overwrite)
        seconds = {**result.seconds, **once}
        order = ("import", "load", "prepare", "encode", "invert", "denoise", "decode")
        table.add_row(
            case["name"], *[f"{seconds[stage]:.1f} s" for stage in order], f"{sum(seconds.values()):.1f} s"
        )
        once = {"import": 0.0, "load": 0.0}
        photo = read_rgb(job.content)
        masks: np.ndarray = read_masks(job, photo.size, []).numpy()
        styles = [(read_rgb(region.style), Path(str(region.style)).stem) for region in job.regions]
        rows.append(contact_row(photo, masks, styles, result.image, case["title"]))
    with atomic(sheet_path) as part:
        sheet(rows).save(part, format="PNG")
    if not quiet:
        console.print(table)
    for case in cases:
        print(out / f"{case['name']}.png")
    print(sheet_path)
