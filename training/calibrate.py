"""Fit the sharpness map of STS (Eq. 36) to a model, on the bundled examples with two regions.

    python -m training.calibrate [--model preview] [--size 256] [--steps 12]

Prints the coefficients for the model's defaults.json, and how well polynomials of degree 1 to 4 describe
what was seen.
"""

from __future__ import annotations

import argparse

from mast import Settings, load
from mast.analysis.calibration import calibrate
from mast.examples import case_job, examples_folder, load_cases


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="preview")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    folder = examples_folder()
    jobs = [case_job(case, folder) for case in load_cases(folder) if len(case["regions"]) == 2]
    settings = Settings(steps=options.steps, inversion="refined", size=options.size, cache=False)
    found = calibrate(jobs, load(options.model), settings)
    print("tau coefficients a, b, c:", ", ".join(f"{value:.5f}" for value in found.coefficients))
    print("R2 by degree:", ", ".join(f"{degree}: {value:.3f}" for degree, value in found.r2.items()))
    print(f"{found.observations} observations from {len(jobs)} pictures")


if __name__ == "__main__":
    main()
