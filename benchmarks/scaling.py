"""How a run grows with the picture: size 256 to 1024, two styles.

python benchmarks/scaling.py [--quick] [--json FILE] [--model preview]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import arguments, show, write


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--model", default="preview")
    options = parser.parse_args()
    sizes = ["256", "384", "512"] if options.quick else ["256", "384", "512", "768", "1024x768", "1024"]
    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "row.json"
            command = [
                sys.executable,
                str(Path(__file__).with_name("run.py")),
                "--model",
                options.model,
                "--size",
                size,
            ]
            command += [
                "--steps",
                "3" if options.quick else "6",
                "-n",
                "2",
                "--mode",
                "cold",
                "--json",
                str(target),
            ]
            subprocess.run(command, check=True, capture_output=True, env=os.environ)
            rows += json.loads(target.read_text())
    first = rows[0]
    keep = (
        "model",
        "size",
        "n",
        "steps",
        "pass_s",
        "invert_s",
        "denoise_s",
        "ratio",
        "step_ratio",
        "peak_rss",
    )
    shown = [
        {**{key: row[key] for key in keep}, "time/first": row["pass_s"] / first["pass_s"]} for row in rows
    ]
    show(shown, "two styles, cold; seconds, bytes, ratios")
    write(shown, options.json)


if __name__ == "__main__":
    main()
