"""Results written with how they were made, and that read back."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image, PngImagePlugin

from ..files import atomic, check_output, parse_json, read_json, shown
from ..job import InputError
from .decoding import decoded

if TYPE_CHECKING:
    from ..job import Result

OUTPUTS = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff")
TEXT_KEY = "mast"  # of the text in a PNG
EXIF_FOLDER, USER_COMMENT, DESCRIPTION = 0x8769, 0x9286, 0x010E
ASCII = b"ASCII\0\0\0"  # how EXIF begins a comment
LONGEST_EXIF = 65_000  # bytes; JPEG holds no more in one piece
LARGEST_RECORD = 4 << 20  # bytes
NEEDED = {"content", "regions", "settings", "method"}


def save_result(
    result: Result,
    path: str | os.PathLike[str],
    overwrite: bool = False,
    metadata: bool = True,
    home: Path | None = None,
) -> None:
    """The picture, as its suffix says (PNG, WebP and TIFF without loss, JPEG), in sRGB, with its provenance
    inside, and the same as PATH.json beside it.

    metadata: False writes no provenance anywhere, and removes an overwritten picture's own .json.
    home: the folder that paths in it are relative to, where that is not the picture's.
    """
    target = check_output(path, overwrite, OUTPUTS)
    sidecar = target.with_suffix(".json")
    known = portable(result.provenance, home or target.parent)
    record = json.dumps(known, indent=2) if metadata else None
    if record is not None:
        check_output(sidecar, overwrite, (".json",))
    image = result.image
    if target.suffix.lower() in (".jpg", ".jpeg") and image.has_transparency_data:
        rgba = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
        if rgba.getchannel("A").getextrema() != (255, 255):
            result.notes.append(f"{shown(target)}: JPEG has no transparency; the picture was laid on white")
    beside = False
    try:
        with atomic(target, overwrite) as part:
            _encode(image, part, target.suffix.lower(), record)
            if record is not None:  # both whole; the picture comes last
                with atomic(sidecar, overwrite) as text:
                    text.write_text(record + "\n", encoding="utf-8")
                beside = True
    except BaseException:
        if beside and not overwrite:  # somebody else has the picture's name by now
            sidecar.unlink(missing_ok=True)
        raise
    if record is None and overwrite and _is_record_file(sidecar):
        sidecar.unlink(missing_ok=True)


def portable(record: Any, folder: Path) -> Any:
    """A record with paths relative to a folder: it names nobody's home, and moves along with its files."""

    def walk(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: walk(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [walk(item) for item in value]
        if isinstance(value, str) and key in ("path", "name") and os.path.isabs(value):
            with suppress(ValueError):  # on another drive
                return Path(os.path.relpath(value, os.path.abspath(folder))).as_posix()
        return value

    return walk(record)


def _encode(image: Image.Image, part: Path, suffix: str, record: str | None) -> None:
    if suffix == ".png":
        info = PngImagePlugin.PngInfo()
        info.add(b"sRGB", b"\0")
        if record is not None:
            info.add_itxt(TEXT_KEY, record)
        image.save(part, format="PNG", pnginfo=info)
        return
    options: dict[str, Any] = {"icc_profile": _srgb_profile()}
    comment = None if record is None else json.dumps(json.loads(record)).encode("ascii")
    if suffix in (".tif", ".tiff"):
        if comment is not None:
            options["tiffinfo"] = {DESCRIPTION: comment.decode("ascii")}
        image.save(part, format="TIFF", compression="tiff_deflate", **options)
        return
    if comment is not None and (suffix == ".webp" or len(comment) < LONGEST_EXIF):
        exif = Image.Exif()
        exif.get_ifd(EXIF_FOLDER)[USER_COMMENT] = ASCII + comment
        options["exif"] = exif
    if suffix == ".webp":
        image.save(part, format="WEBP", lossless=True, exact=True, **options)
    else:
        image.save(part, format="JPEG", quality=95, subsampling=0, **options)


def _srgb_profile() -> bytes | None:
    """sRGB for files that name their colours by a profile; always the same bytes, so without its date."""
    try:
        from PIL import ImageCms

        made = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    except ImportError:  # no littlecms in this Pillow
        return None
    return made[:24] + b"\x07\xd0\0\x01\0\x01" + bytes(6) + made[36:]


def save_png(image: Image.Image, path: Path) -> None:
    with atomic(path) as part:
        image.save(part, format="PNG")


def read_provenance(path: str | os.PathLike[str]) -> dict[str, Any]:
    """How a picture was made: from the picture itself, or a JSON sidecar. Its keys are there; what they hold
    may come from anybody.
    """
    target = Path(path)
    name, sidecar = shown(target), target.with_suffix(".json") if target.name else target
    text: str | bytes | None = None
    if target.suffix.lower() != ".json":
        with decoded(target, "picture") as opened:
            text = _embedded(opened)
    if text is not None:
        record = parse_json(text, name, LARGEST_RECORD)
    elif sidecar.is_file() or target.suffix.lower() == ".json":
        record = read_json(sidecar, "record", LARGEST_RECORD)
    else:
        record = None
    if not isinstance(record, dict) or not record.keys() >= NEEDED:
        without = text is None and target.suffix.lower() != ".json"  # what is beside it is something else
        what = "carries no record of how it was made" if without else "this is no record of mast"
        raise InputError(f"{name}: {what}; give a picture mast made, or its .json")
    return record


def _embedded(opened: Image.Image) -> str | bytes | None:
    """The text of a record inside a picture, or None."""
    text = opened.info.get(TEXT_KEY)
    if isinstance(text, str):
        return str(text)
    try:
        exif = opened.getexif()
        comment = exif.get_ifd(EXIF_FOLDER).get(USER_COMMENT)
        found = comment.removeprefix(ASCII) if isinstance(comment, bytes) else exif.get(DESCRIPTION)
    except Exception:  # EXIF that cannot be parsed holds no record
        return None
    found = found.encode(errors="replace") if isinstance(found, str) else found
    return found if isinstance(found, bytes) and found.startswith(b"{") else None


def _is_record_file(path: Path) -> bool:
    try:
        read_provenance(path)
    except InputError:
        return False
    return True
