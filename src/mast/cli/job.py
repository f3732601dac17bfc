"""mast job OUT.png -o JOB.toml: a picture's own record as a job file, to change and paint again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..files import check_outputs
from .console import loading, say
from .given_jobs import files_of
from .options import OUTPUT, Overwrite, Quiet, option


def job(
    picture: Annotated[Path, typer.Argument(help="A picture mast made (or its .json).")],
    output: Annotated[
        Path,
        option(OUTPUT, "JOB.toml", "The job file; its paths are relative to it.", names=("-o", "--output")),
    ],
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Writes the job file that paints a picture again: mast stylize JOB.toml."""
    with loading("the record", quiet):
        from ..pipeline.jobfile import jobfile_of_record, write_jobfile
        from ..pipeline.provenance import load_record

        record = load_record(picture)
        painted = None if picture.suffix.lower() == ".json" else picture
        found = jobfile_of_record(record, picture.parent, painted)
        check_outputs([output], [picture, *files_of(found.job)], overwrite, (".toml",))
        write_jobfile(found, output, overwrite)
    if not quiet:
        say((str(output), "bold"), f"  (mast stylize {output} -o NEW.png paints it again)")
