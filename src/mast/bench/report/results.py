"""What a run folder holds for the tables: variants, the samples each has made, and how each was made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...job import InputError
from ...methods import METHODS
from ...metrics.samples import Collection, EvaluatedPicture, read_record
from ..data.manifest import BenchSample, Manifest, read
from ..run.records import RUN, failures
from ..variants import STRATEGIES

FAMILIES = {"global-single": "G-S", "regional-single": "R-S", "regional-multi": "R-M"}
UNKNOWN = "-"  # the family of a method this mast does not have
COMPARED = ("size", "steps", "inversion", "clean_end", "fit")
"""Settings that make pictures differ, whatever the method."""


@dataclass(frozen=True)
class VariantRun:
    """One variant's folder. `method` is the row it belongs to: its name without the compositor's."""

    name: str
    folder: Path
    facts: dict[str, Any] = field(default_factory=dict)
    done: frozenset[str] = frozenset()
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def composite(self) -> str | None:
        """The compositor, where the variant's name ends in it."""
        tail = self.name.rpartition("-")[2]
        joined = self.facts.get("composite", tail) == tail and tail in STRATEGIES
        return tail if joined and tail != self.name else None

    @property
    def method(self) -> str:
        return self.name if self.composite is None else self.name[: -len(self.composite) - 1]

    @property
    def options(self) -> dict[str, Any]:
        """The method's own name under `name`, and its options."""
        found = self.facts.get("method")
        return found if isinstance(found, dict) else {}

    @property
    def family(self) -> str:
        """G-S, R-S or R-M, as the paper calls them."""
        method = METHODS.get(str(self.options.get("name", self.method)))
        return FAMILIES[method.family] if method is not None else UNKNOWN

    @property
    def papers_protocol(self) -> bool:
        """Whether it was made as `mast bench run --protocol paper` makes it."""
        return self.facts.get("protocol") == "paper"

    def says(self, what: str) -> Any:
        """The model's fingerprint, or a setting."""
        if what == "model":
            return str((self.facts.get("model") or {}).get("fingerprint"))[:12]
        return (self.facts.get("settings") or {}).get(what)


def read_runs(
    folder: Path, manifest_path: Path | None = None, variants: Sequence[str] = ()
) -> tuple[Manifest, list[VariantRun]]:
    """The manifest all variants were made from, and the variants; some of them where some are named."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the folder that mast bench run wrote")
    found = {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{RUN}"))}
    if not found:
        raise InputError(
            f"{folder}: no variant in it (no */{RUN}); give the folder that mast bench run wrote"
        )
    for name in variants:
        if name not in found:
            raise InputError(f"{folder}: no variant is called {name!r}; there are {', '.join(found)}")
    facts = {name: _facts(found[name] / RUN) for name in variants or found}
    manifest = _manifest(folder, facts, manifest_path)
    ids = {sample.id for sample in manifest.samples}
    runs = []
    for name, said in facts.items():
        place = found[name]
        done = frozenset(path.stem for path in place.glob("*.png")) & ids
        failed = {id: str(entry.get("reason", "")) for id, entry in failures(place).items() if id in ids}
        runs.append(VariantRun(name, place, said, done, failed))
    return manifest, runs


def _facts(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); run this variant again") from error
    if not isinstance(facts, dict) or not isinstance(facts.get("manifest"), dict):
        raise InputError(f"{path}: does not say which manifest it was made from; run this variant again")
    return facts


def _manifest(folder: Path, facts: dict[str, dict[str, Any]], given: Path | None) -> Manifest:
    """The one manifest of all variants; pictures of different benchmarks are not put in one table."""
    hashes = {name: str(said["manifest"].get("sha256")) for name, said in facts.items()}
    if len(set(hashes.values())) > 1:
        listed = "; ".join(f"{name} {hashed[:12]}" for name, hashed in hashes.items())
        raise InputError(
            f"{folder}: variants of different manifests ({listed}); choose those of one with --variant"
        )
    name, said = next(iter(facts.items()))
    path = given or folder / name / str(said["manifest"].get("path"))  # older ones are absolute
    if given is None and not path.is_file():
        raise InputError(f"{path}: the manifest is not there any more; give it with --manifest")
    manifest = read(path)
    wanted = next(iter(hashes.values()))
    if manifest.sha256 != wanted:
        raise InputError(
            f"{manifest.path}: not the manifest these variants were made from (its sha256 begins "
            f"{manifest.sha256[:12]}, theirs {wanted[:12]}); put the old one back or give it with --manifest"
        )
    return manifest


def collection(run: VariantRun, samples: Sequence[BenchSample]) -> Collection:
    """A variant's pictures of some samples, for the metrics; photos, masks and styles are the manifest's.

    A picture whose record names other files than the manifest is a problem, and so is one without a record.
    """
    found = Collection()
    for sample in samples:
        picture = run.folder / f"{sample.id}.png"
        problem = _disagrees(picture, sample)
        if problem:
            found.problems[str(picture)] = f"{picture}: {problem}"
        square = run.says("fit") == "square"
        found.samples.append(
            EvaluatedPicture(sample.id, picture, sample.content.path, sample.job().regions, square)
        )
    return found


def _disagrees(picture: Path, sample: BenchSample) -> str | None:
    """What is wrong with a picture's record, if anything is."""
    try:
        record = read_record(picture)
        if record is None:
            return "its record (.json) is missing or damaged"
        seen = [record["content"]["sha256"]]
        for region in record["regions"]:
            seen += [region["mask"]["sha256"], region["style"]["sha256"]]
    except (InputError, KeyError, TypeError):
        return "its record (.json) is missing or damaged"
    same = seen == [file.sha256 for file in sample.files()]
    return None if same else "made from other files than the manifest names"


def differences(runs: Sequence[VariantRun]) -> list[str]:
    """Notes on what differs between variants besides their method: the model, and settings."""
    notes = []
    for what in ("model", *COMPARED):
        values: dict[Any, list[str]] = {}
        for run in runs:
            values.setdefault(run.says(what), []).append(run.name)
        if len(values) > 1:
            listed = "; ".join(f"{key}: {', '.join(names)}" for key, names in values.items())
            notes.append(f"variants differ in {what} ({listed})")
    return notes
