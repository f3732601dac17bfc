"""mast demo: the bundled examples, a contact sheet, and how long it took."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from rich.table import Table

from ..examples import case_job, examples_folder, load_cases
from ..files import check_outputs
from ..job import InputError, Settings
from .console import console, loading, progress, say
from .given_jobs import files_of
from .options import MACHINE, MODEL, OUTPUT, Overwrite, Quiet, flag, option

SMALLEST, LARGEST = 512, 1024  # pixels of the longer side, unless a size is given
STAGES = ("import", "load", "prepare", "encode", "invert", "denoise", "decode")


def demo(
    out: Annotated[Path, option(OUTPUT, "FOLDER", "A folder for the pictures.")] = Path("mast-demo"),
    quick: Annotated[bool, flag("--quick", help="One case only.")] = False,
    everything: Annotated[bool, flag("--all", help="All bundled cases, not just three.")] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    model: Annotated[
        str, option(MODEL, "MODEL", "preview (embedded), a hub id, a diffusers folder or a checkpoint file.")
    ] = "preview",
    size: Annotated[
        int | None,
        option(MODEL, "PIXELS", "Longer side of the pictures.", "the photo's, 512 to 1024; 512 with --quick"),
    ] = None,
    cache: Annotated[
        bool, flag("--cache/--no-cache", help="Keep and use inversions on disk.", panel=MACHINE)
    ] = True,
) -> None:
    """Stylizes bundled examples with two, three and five regions."""
    began = time.perf_counter() - time.process_time()  # what was imported so far is the work done so far
    with loading("the model", quiet):
        folder = examples_folder()
        cases = load_cases(folder)
        cases = cases[:1] if quick else cases if everything else cases[:3]
        Settings().with_(size=size)
        from ..backbone.load import load
        from ..images import save_png
        from ..pipeline import default_settings, read_job, stylize
        from ..sheets import contact_row, sheet

        jobs = [case_job(case, folder) for case in cases]
        pictures = [out / f"{case['name']}.png" for case in cases]
        sheet_path = out / "contact-sheet.png"
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{out}: no folder can be made there ({error.strerror}); choose another"
            ) from error
        written = [sheet_path, *pictures, *[path.with_suffix(".json") for path in pictures]]
        check_outputs(written, [path for job in jobs for path in files_of(job)], overwrite)
        imported = time.perf_counter()
        backbone = load(model)
        settings = default_settings(backbone, size=size, cache=None if cache else False)
        longest = SMALLEST if quick else LARGEST
        loaded = time.perf_counter()
    if not quiet:
        how = f"{settings.steps} steps, {settings.inversion} inversion, {size or f'up to {longest}'} px"
        say(f"model {backbone.name}, {how}, on {backbone.device}")
    table, rows = Table("case", *STAGES, "total", box=None), []
    once = {"import": imported - began, "load": loaded - imported}
    for case, job, path in zip(cases, jobs, pictures, strict=True):
        inputs = read_job(job)
        own = min(longest, max(SMALLEST, *inputs.photo.size))
        with progress(quiet) as bar:
            result = stylize(inputs, backbone, "mast", settings.with_(size=size or own), bar)
        result.save(path, overwrite)
        seconds = {**result.seconds, **once}
        once = {"import": 0.0, "load": 0.0}
        total = sum(seconds.values())
        table.add_row(case["name"], *[f"{seconds[stage]:.1f} s" for stage in STAGES], f"{total:.1f} s")
        seen = result.inputs
        styles = [(style.picture, style.name) for style in seen.styles]
        rows.append(contact_row(seen.photo, seen.masks.numpy(), styles, result.image, case["title"]))
    save_png(sheet(rows), sheet_path)
    if not quiet:
        console.print(table)
    for path in (*pictures, sheet_path):
        print(path)
