"""What strangers may send: pictures that are none, too large, or two things at once; paths in every field."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mast.studio.desk import Desk
from mast.studio.pictures import Limits, bundled
from tests.studio.conftest import LEFT, PHOTO, png, upload
from tests.tiny import picture

TRAVERSALS = [
    "../../../etc/passwd",
    "/etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "..\\..\\secret",
    "studio.sqlite",
]
TRAVERSALS += ["example-../../cases", "file:///etc/passwd", "a\0b", "x" * 5000, "con", "~root", "."]


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def blank_png(width: int, height: int, rows: int | None = None) -> bytes:
    """A PNG that says it is so large; rows: how many it really has, all black, packed a thousandfold."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    packer = zlib.compressobj(9)
    data = b"".join(packer.compress(bytes(width + 1)) for _ in range(height if rows is None else rows))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", data + packer.flush()) + chunk(b"IEND", b"")


def refused(client: Any, data: bytes, status: int) -> str:
    answer = client.post("/api/images", content=data)
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    return answer.json()["error"]


def nothing_is_kept(desk: Desk) -> None:
    folder = desk.store.folder
    assert [*folder.glob("incoming/*"), *folder.glob("workspaces/*/*/*")] == []


def test_a_picture_of_40000_pixels_a_side_is_not_decoded(client, desk):
    assert "too many" in refused(client, blank_png(40_000, 40_000, rows=3), 413)
    assert "16384 a side" in refused(client, blank_png(40_000, 20), 413)
    nothing_is_kept(desk)


def test_a_bomb_is_measured_before_it_goes_off(client, desk):
    """A megabyte of zeros packs into a kilobyte."""
    bomb = blank_png(1200, 1200)
    assert len(bomb) < 10_000
    assert "1200x1200" in refused(client, bomb, 413)
    hidden = (
        blank_png(64, 64)[:-12]
        + chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(200 << 20), 9))
        + chunk(b"IEND", b"")
    )
    answer = client.post("/api/images", content=hidden)
    assert answer.status_code in (201, 400)  # what is packed in its text is not unpacked
    assert "too large" in refused(client, bytes((1 << 20) + 1), 413)


@pytest.mark.parametrize(
    "data",
    [
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        b"<?xml version='1.0'?><svg/>",
        b"<html><script>alert(1)</script></html>",
        b"%PDF-1.7\n%%EOF",
        b"%!PS-Adobe-3.0 EPSF-3.0\n(r) file",
        b"PK\x03\x04" + bytes(100),
        b"#!/bin/sh\nrm -rf /",
        b"GIF89a",
        b"\x89PNG\r\n\x1a\n",
        bytes(1000),
        b"push graphic-context\nimage over 0,0 0,0 'https://evil'",
    ],
)
def test_what_is_no_picture_is_refused_by_its_content(client, desk, data):
    for kind in ("image/png", "image/svg+xml", "text/html"):
        answer = client.post("/api/images", content=data, headers={"Content-Type": kind})
        assert answer.status_code in (400, 415), answer.text
        assert "error" in answer.json()
    nothing_is_kept(desk)


def test_an_empty_body_and_damaged_pictures_are_refused(client, desk):
    assert "empty" in refused(client, b"", 400)
    said = refused(client, PHOTO[: len(PHOTO) // 2], 400)
    assert "the picture" in said and str(desk.store.folder) not in said
    assert "small" in refused(client, png(Image.new("RGB", (3, 3))), 400)
    frames = io.BytesIO()
    two = [picture(32, 32, 1), picture(32, 32, 2)]
    two[0].save(frames, format="GIF", save_all=True, append_images=two[1:])
    assert "animation" in refused(client, frames.getvalue(), 400)
    nothing_is_kept(desk)


@pytest.mark.parametrize("tail", [b"<script>alert(1)</script>", b"PK\x03\x04" + bytes(50), b"%PDF-1.7"])
def test_a_file_that_is_two_things_is_shown_as_a_picture_only(client, tail):
    image = upload(client, PHOTO + tail)
    for width in ("", "?width=20"):
        shown = client.get(image["url"] + width)
        assert shown.headers["content-type"] == "image/png"
        assert shown.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in shown.headers["content-security-policy"]
    assert tail not in client.get(image["url"] + "?width=20").content


def test_the_kind_is_the_contents_whatever_the_client_says(client):
    jpeg = io.BytesIO()
    picture(40, 30, 1).save(jpeg, format="TIFF")
    answer = client.post("/api/images", content=jpeg.getvalue(), headers={"Content-Type": "image/svg+xml"})
    shown = client.get(answer.json()["url"])
    assert shown.headers["content-type"] == "image/png"  # which every browser shows
    assert Image.open(io.BytesIO(shown.content)).size == (40, 30)


def test_the_same_picture_twice_is_kept_once_and_upright(client, desk):
    turned = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    picture(40, 30, 1).save(turned, format="JPEG", exif=exif)
    first, again = upload(client, turned.getvalue()), upload(client, turned.getvalue())
    assert first == again and (first["width"], first["height"]) == (30, 40)
    assert len(list(desk.store.folder.glob("workspaces/*/images/*"))) == 1


def test_a_full_workspace_says_so(tmp_path, access):
    from tests.studio.conftest import ALPHA, in_process

    desk = Desk(tmp_path / "full", "preview", "cpu", Limits(stored=100))
    client = next(in_process(desk, access, Authorization=f"Bearer {ALPHA}"))
    upload(client, PHOTO)
    assert "full" in refused(client, LEFT, 413)
    desk.store.close()


# ------------------------------------------------------------------------------------------------ paths


@pytest.mark.parametrize("text", TRAVERSALS)
def test_no_string_of_a_job_is_a_path(client, desk, text):
    region = {"style": "example-style-batik", "mask": None}
    job = {"photo": "example-cat", "regions": [region]}
    hostile = [
        {**job, "photo": text},
        {**job, "regions": [{**region, "style": text}]},
        {**job, "regions": [{**region, "mask": text}]},
        {**job, "regions": [{**region, "style_mask": text}]},
        {**job, "regions": [{**region, "colour": text}]},
        {**job, "method": text},
        {**job, "settings": {"preset": text}},
        {**job, "settings": {text: 1}},
        {**job, "options": {text: 1}},
        {**job, "options": {"tau": text}},
    ]
    for request in hostile:
        answer = client.post("/api/jobs", json=request)
        assert answer.status_code in (400, 404, 422), (request, answer.text)
        assert list(answer.json()) == ["error"] and "root:x" not in answer.text
    for path, more in (
        ("click", {"points": [[1, 1, 1]]}),
        ("box", {"box": [0, 0, 9, 9]}),
        ("auto", {"n": 2}),
    ):
        assert client.post(f"/api/segment/{path}", json={"photo": text, **more}).status_code in (404, 422)
    assert list(desk.store.folder.glob("workspaces/*/jobs/*")) == []


@pytest.mark.parametrize("text", TRAVERSALS)
def test_names_and_keys_may_be_anything_and_lead_nowhere(client, desk, text):
    """They are kept and given back, and no file is called after them."""
    region = {"style": "example-style-batik", "name": text[:100]}
    job = {"photo": "example-cat", "regions": [region], "key": text[:100]}
    made = client.post("/api/jobs", json=job)
    assert made.status_code == 201
    assert made.json()["request"]["regions"][0]["name"] == text[:100]
    (folder,) = desk.store.folder.glob("workspaces/*/jobs/*")
    assert sorted(path.name for path in folder.iterdir()) == ["photo.jpg", "style1.png"]


@pytest.mark.parametrize("text", [t for t in TRAVERSALS if "\0" not in t])
def test_no_address_is_a_path(client, text):
    from urllib.parse import quote

    for form in (text, quote(text, safe="")):
        paths = [f"/api/images/{form}", f"/api/jobs/{form}", f"/api/jobs/{form}/result", f"/{form}"]
        for path in [*paths, f"/api/jobs/x/masses/{form}", f"/api/jobs?before={form}"]:
            answer = client.get(path)
            assert answer.status_code in (200, 404, 405, 414, 422), path
            assert "root:x" not in answer.text and "SQLite" not in answer.text


def test_every_bundled_picture_is_inside_the_examples():
    from mast.examples import examples_folder

    for id, image in bundled().items():
        assert examples_folder() in image.path.parents and id.startswith("example-")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"[" * 100_000,
        b'{"photo": NaN}',
        b'{"photo": "\\ud800", "regions": []}',
        b'{"photo":"example-cat","regions":[{"style":"example-style-batik","strength":NaN}]}',
        b'{"photo":"example-cat","regions":[{"style":"example-style-batik","strength":1e999}]}',
        b'{"photo":"example-cat","regions":[{"style":"example-style-batik","name":"\\ud800"}]}',
        b'{"photo":"example-cat","regions":[{"style":"example-style-batik"}],"options":{"pi":Infinity}}',
        b'{"photo":"example-cat","regions":[{"style":"example-style-batik"}],"options":{"pi":'
        + b"9" * 5000
        + b"}}",
        b'{"photo":"example-cat","regions":[{"style":"example-style-batik"}],"settings":{"steps":1e30}}',
        b"\xff\xfe\x00",
    ],
    ids=range(14),
)
def test_json_that_is_none_is_an_error_of_the_clients(client, body):
    answer = client.post("/api/jobs", content=body, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500, answer.text
    assert list(answer.json()) == ["error"]


def test_bad_jobs_are_refused_before_they_wait(client):
    region = {"style": "example-style-batik"}
    job = {"photo": "example-cat", "regions": [region]}

    def error(**changes: Any) -> str:
        answer = client.post("/api/jobs", json={**job, **changes})
        assert 400 <= answer.status_code < 500, answer.text
        return answer.json()["error"]

    assert "only one can take what is left over" in error(regions=[region, region])
    assert "another shape" in error(regions=[{**region, "mask": upload(client, png(picture(20, 90)))["id"]}])
    assert "did you mean 'mast'" in error(method="mats")
    assert "has no option 'gamma'" in error(options={"gamma": 1})
    assert "pi is 2" in error(options={"pi": 2})
    assert "find the regions itself" in error(method="stylegallery:auto=on")
    assert "tau" in error(options={"tau": "a/b"})
    assert "pi" in error(options={"pi": [1.0, 2.0]})
    assert "strength" in error(regions=[{**region, "strength": 0}])
    assert "steps" in error(settings={"steps": 100_000})
    assert client.get("/api/jobs").json() == {"jobs": []}


def test_the_page_folder_holds_no_more_than_the_page():
    page = Path(__file__).parents[2] / "src" / "mast" / "studio" / "page"
    assert (page / "index.html").is_file()
    text = (page / "index.html").read_text()
    assert "https://" not in text and "<style" not in text
    assert not any(path.is_symlink() for path in page.rglob("*"))
