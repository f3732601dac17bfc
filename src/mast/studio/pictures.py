"""Pictures that come in and go out: streamed to disk, measured before they are decoded, shown small.

No name that a client sends is ever a path: pictures are asked for by ids, and only ids that are in the store,
or of the bundled examples, lead to a file.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import io
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image

from ..examples import examples_folder, load_cases
from ..images import read_rgb
from ..images.decoding import open_picture, peek
from ..job import InputError
from .safety import Refused
from .store import StoredImage, StudioStore

SUFFIXES = {"PNG": ".png", "JPEG": ".jpg", "MPO": ".jpg", "WEBP": ".webp", "TIFF": ".tif", "BMP": ".bmp"}
SUFFIXES |= {"GIF": ".gif", "AVIF": ".avif"}
SHOWN = {".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp"}  # as they are, by every browser
LONGEST_SIDE = 16_384  # pixels; no browser's canvas takes more


@dataclass(frozen=True)
class Limits:
    """What a client may use. bytes, pixels: of a picture; stored: bytes of all pictures of a workspace;
    waiting: jobs of a workspace at a time; streams: of events, of everybody.
    """

    bytes: int = 50 << 20
    pixels: int = 64_000_000
    stored: int = 4 << 30
    waiting: int = 20
    streams: int = 200
    json: int = 256 << 10
    unused: float = 24 * 3600  # seconds that a picture stays which no job uses
    drafts: int = 30  # finished drafts of a workspace that stay

    def of_body(self, path: str) -> int:
        return self.bytes if path == "/api/images" else self.json


USUAL = Limits()


async def receive(
    store: StudioStore, workspace: str, body: AsyncIterator[bytes], limits: Limits
) -> StoredImage:
    """A picture from a request's body, which goes to disk as it comes."""
    if await asyncio.to_thread(store.bytes_of, workspace) > limits.stored:
        raise Refused(
            413, "your workspace is full; delete some runs, or wait until unused pictures are removed"
        )
    folder = store.folder / "incoming"
    folder.mkdir(exist_ok=True, mode=0o700)
    part = folder / secrets.token_hex(16)
    try:
        digest = hashlib.sha256()
        with open(part, "wb") as file:
            async for piece in body:
                digest.update(piece)
                file.write(piece)
        return await asyncio.to_thread(_accept, store, workspace, part, digest.hexdigest(), limits)
    finally:
        part.unlink(missing_ok=True)


def _accept(store: StudioStore, workspace: str, part: Path, digest: str, limits: Limits) -> StoredImage:
    """Checks a file that has come; what it is, its content says."""
    id = hmac.new(store.secret, f"{workspace} {digest}".encode(), "sha256").hexdigest()[:40]
    known = store.image(workspace, id)
    if known is not None and known.path.exists():
        return known
    if part.stat().st_size == 0:
        raise Refused(400, "the request is empty; send the bytes of one picture as its body")
    try:
        kind, width, height = peek(part, "picture")
    except InputError as error:
        if isinstance(error.__cause__, Image.DecompressionBombError):
            raise Refused(413, str(error).replace(str(part), "the picture")) from error
        raise Refused(
            415, "this is no picture that can be read; send PNG, JPEG, WebP, TIFF, BMP, GIF or AVIF"
        ) from error
    if width * height > limits.pixels or max(width, height) > LONGEST_SIDE:
        raise Refused(
            413,
            f"{width}x{height} pixels are too many; at most {limits.pixels / 1e6:g} million are taken, and "
            f"{LONGEST_SIDE} a side",
        )
    try:
        size = open_picture(part, "picture").size
    except InputError as error:
        raise Refused(400, str(error).replace(str(part), "the picture")) from error
    return store.add_image(workspace, id, part, SUFFIXES[kind], size)


def keep(store: StudioStore, workspace: str, picture: Image.Image) -> StoredImage:
    """A picture that was made here, as PNG."""
    data = io.BytesIO()
    picture.save(data, format="PNG")
    digest = hashlib.sha256(data.getvalue()).hexdigest()
    id = hmac.new(store.secret, f"{workspace} {digest}".encode(), "sha256").hexdigest()[:40]
    folder = store.folder / "incoming"
    folder.mkdir(exist_ok=True, mode=0o700)
    part = folder / secrets.token_hex(16)
    part.write_bytes(data.getvalue())
    return store.add_image(workspace, id, part, ".png", picture.size)


def find(store: StudioStore, workspace: str, id: str, what: str = "picture") -> StoredImage:
    """A picture by its id: of the workspace, or a bundled one."""
    found = bundled().get(id) or store.image(workspace, id)
    if found is None:
        raise Refused(404, f"no {what} of this id is here; send it again (POST /api/images)")
    return found


def shown(image: StoredImage, width: int | None) -> tuple[bytes, str]:
    """The bytes of a picture for a browser, and their type; at most so many pixels wide."""
    kind = SHOWN.get(image.path.suffix)
    if kind is not None and (width is None or width >= image.width):
        return image.path.read_bytes(), kind
    picture = read_rgb(image.path, "picture")
    if width is not None and width < picture.width:
        height = max(1, round(picture.height * width / picture.width))
        picture = picture.resize((width, height), Image.Resampling.LANCZOS)
    data = io.BytesIO()
    photo = image.path.suffix == ".jpg"
    picture.save(data, **({"format": "JPEG", "quality": 88} if photo else {"format": "PNG"}))
    return data.getvalue(), "image/jpeg" if photo else "image/png"


# ------------------------------------------------------------------------------------------------ examples


@cache
def bundled() -> dict[str, StoredImage]:
    """The examples by id: example-NAME, example-mask-NAME, example-style-NAME."""
    found = {}
    for part, prefix in (("photos", "example-"), ("masks", "example-mask-"), ("styles", "example-style-")):
        for path in sorted((examples_folder() / part).iterdir()):
            if path.suffix in SHOWN:
                with Image.open(path) as opened:
                    found[prefix + path.stem] = StoredImage(prefix + path.stem, path, *opened.size)
    return found


@cache
def examples() -> dict[str, Any]:
    """Photos with the regions drawn on them, and styles."""
    here, folder = bundled(), examples_folder()
    photos: dict[str, Any] = {}
    for case in load_cases(folder):
        name = Path(case["content"]).stem
        if name in photos:
            continue
        image = here[f"example-{name}"]
        photos[name] = {
            "id": image.id,
            "name": name,
            "title": case["title"],
            "width": image.width,
            "height": image.height,
            "url": f"/api/images/{image.id}",
            "regions": [
                {
                    "name": Path(region["mask"]).stem.removeprefix(f"{name}-")
                    if region["mask"]
                    else "the rest",
                    "mask": f"example-mask-{Path(region['mask']).stem}" if region["mask"] else None,
                    "style": f"example-style-{Path(region['style']).stem}",
                }
                for region in case["regions"]
            ],
        }
    styles = [
        {"id": id, "name": image.path.stem.replace("-", " "), "url": f"/api/images/{id}"}
        for id, image in here.items()
        if id.startswith("example-style-")
    ]
    return {"photos": list(photos.values()), "styles": styles}
