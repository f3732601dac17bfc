"""What stands behind the routes: taking a request in, and showing a job as it is now."""

from __future__ import annotations

import threading
import zipfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..job import InputError
from . import pictures
from .catalogue import method_of, settings_of
from .events import ENDED, EventHub
from .pictures import Limits
from .queue import JobQueue
from .safety import Refused
from .segmenting import SegmentingProcess
from .store import StoredImage, StoredJob, StudioStore

ASPECT = 0.02  # by which a mask's shape may differ from its picture's


class Desk:
    """The studio without its routes. data: its folder; model, device: as `mast stylize` takes them."""

    def __init__(self, data: Path, model: str, device: str, limits: Limits):
        self.limits = limits
        self.store, self.hub = StudioStore(data), EventHub()
        self.queue = JobQueue(self.store, model, device, self._told)
        self.segmenting = SegmentingProcess()
        self._submitting = threading.Lock()

    def open(self) -> None:
        self.store.tidy_files()
        self.tidy()
        self.queue.start()

    def warm(self) -> None:
        """Imports what the first job needs here, when the model is loaded and the machine has time."""
        self.queue.settled.wait()
        from ..methods import spec  # noqa: F401

    def tidy(self) -> None:
        self.store.tidy(self.limits.unused, self.limits.drafts)

    def close(self) -> None:
        self.queue.stop()
        self.segmenting.end()
        self.store.close()

    def _told(self, job: StoredJob, kind: str) -> None:
        if kind == "preview":
            self.hub.publish(job.id, kind, {"url": f"/api/jobs/{job.id}/preview?n={self.queue.previews}"})
        else:
            self.hub.publish(job.id, kind, self.view(job))

    # -------------------------------------------------------------------------------------------- submitting

    def submit(self, workspace: str, request: dict[str, Any]) -> StoredJob:
        """A new job, or the one that this key has made already. request: as schemas.JobRequest has it."""
        key, draft = request["key"], request["draft"]
        if key is not None and (old := self.store.job_by_key(workspace, key)) is not None:
            return self._same(old, request)
        if self.queue.model.state == "failed":
            raise Refused(409, f"nothing can be painted: {self.queue.model.message}")
        method_of(request)
        settings_of(request)
        files, used = self._files(workspace, request)
        with self._submitting:  # so that the limit is one, and a key is used once
            if key is not None and (old := self.store.job_by_key(workspace, key)) is not None:
                return self._same(old, request)
            active = self.store.active(workspace, draft)
            if not draft and len(active) >= self.limits.waiting:
                raise Refused(
                    429, f"{len(active)} jobs of yours wait or run already; wait for one, or cancel one"
                )
            job = self.store.add_job(workspace, request, files, used, draft, key)
        for older in active if draft else ():
            self.queue.cancel(older)
        self.queue.wake()
        return job

    def _same(self, old: StoredJob, request: dict[str, Any]) -> StoredJob:
        if old.request != request:
            raise Refused(409, "this key belongs to another request; choose another key")
        return old

    def _files(self, workspace: str, request: dict[str, Any]) -> tuple[dict[str, Path], list[str]]:
        """What a job reads, by the name it gets in the job's folder, and the ids of what was uploaded."""
        rests = [i for i, region in enumerate(request["regions"], 1) if region["mask"] is None]
        if len(rests) > 1:
            raise InputError(
                f"regions {', '.join(map(str, rests))} have no mask; only one can take what is left over"
            )
        photo = pictures.find(self.store, workspace, request["photo"], "photo")
        found = {"photo": photo}
        for i, region in enumerate(request["regions"], 1):
            style = pictures.find(self.store, workspace, region["style"], f"painting (region {i})")
            found[f"style{i}"] = style
            for name, key, whole in (("mask", "mask", photo), ("stylemask", "style_mask", style)):
                if region[key] is not None:
                    mask = pictures.find(self.store, workspace, region[key], f"{key} (region {i})")
                    _check_shape(mask, whole, f"the {key.replace('_', ' ')} of region {i}")
                    found[f"{name}{i}"] = mask
        files = {f"{name}{image.path.suffix}": image.path for name, image in found.items()}
        return files, [image.id for image in found.values()]

    # -------------------------------------------------------------------------------------------- showing

    def job(self, workspace: str, id: str) -> StoredJob:
        found = self.store.job(workspace, id)
        if found is None:
            raise Refused(404, "no job of this id is here")
        return found

    def delete(self, workspace: str, id: str) -> None:
        job = self.job(workspace, id)
        if job.state == "queued":
            self.queue.cancel(job)
        if not self.store.delete(job):
            raise Refused(409, "this job is being painted; cancel it first")

    def view(self, job: StoredJob) -> dict[str, Any]:
        """As schemas.JobView has it."""
        running = self.queue.running
        now = job.state == "running" and running is not None and running.id == job.id
        home = f"/api/jobs/{job.id}"
        outcome, result = job.outcome, None
        if job.state == "done":
            result = {
                "url": f"{home}/result",
                "sheet": f"{home}/sheet",
                "jobfile": f"{home}/jobfile",
                "thumbnail": f"{home}/thumbnail",
                "masses": [
                    {"name": name, "url": f"{home}/masses/{i}"} for i, name in enumerate(outcome["masses"])
                ],
                **{key: outcome[key] for key in ("width", "height", "command")},
            }
        return {
            "id": job.id,
            "state": job.state,
            "draft": job.draft,
            "created": _time(job.created),
            "started": _time(job.started),
            "finished": _time(job.finished),
            "position": self.store.position(job),
            "progress": self.queue.progress if now else None,
            "preview": f"{home}/preview?n={self.queue.previews}" if now and self.queue.previews else None,
            "error": job.error,
            "notes": outcome.get("notes", []),
            "seconds": outcome.get("seconds", {}),
            "request": job.request,
            "result": result,
        }

    def file(self, workspace: str, id: str, name: str) -> Path:
        """A file of a job by a name of ours."""
        job = self.job(workspace, id)
        path = self.store.job_folder(workspace, job.id) / name
        if not path.is_file():
            there = "is not there" if job.state in ENDED else "is not there yet; listen to the job's events"
            raise Refused(404, f"this part of the job {there}")
        return path


def _check_shape(mask: StoredImage, whole: StoredImage, what: str) -> None:
    if abs((mask.width / mask.height) / (whole.width / whole.height) - 1) > ASPECT:
        raise InputError(
            f"{what} is {mask.width}x{mask.height}, its picture {whole.width}x{whole.height}: another shape; "
            "draw it on the picture itself"
        )


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return (
        datetime.fromtimestamp(seconds, timezone.utc)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def pack(folder: Path, target: Path) -> None:
    """A job's folder as a zip: the job file with all it reads, and the picture. Unpacked, `mast stylize
    job.toml -o again.png` paints it again, and `mast replay result.png` says whether it is the same.
    """
    wanted = ("photo.", "style", "mask", "result.", "job.")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as file:  # pictures are packed already
        for path in sorted(folder.iterdir()):
            if path.name.startswith(wanted):
                file.write(path, f"mast-job/{path.name}")
