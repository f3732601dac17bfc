"""From whatever a picture is given as to pixels in memory: the one place where picture files are opened.

Only the formats below are tried, whatever a file calls itself: some of Pillow's others start programs.
"""

from __future__ import annotations

import ctypes
import io
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import Any, BinaryIO

import numpy as np
from PIL import Image, UnidentifiedImageError

from ..files import open_regular, shown
from ..job import ImageLike, InputError

FORMATS = ("PNG", "JPEG", "MPO", "WEBP", "TIFF", "BMP", "GIF", "AVIF")
PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp", ".avif")  # looked for in folders
LARGEST = 178_956_970  # pixels; Pillow's own bound for a picture that is not an attack
LARGEST_FILE = 2 << 30  # bytes
SMALLEST = 16  # pixels a side
CHANNELS = (1, 3, 4)
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # what EXIF's orientation asks for

_decoding = threading.RLock()


def describe(image: ImageLike, otherwise: str = "image") -> str:
    """How to name an input in a message: its path, or what it is."""
    return shown(image) if isinstance(image, (str, os.PathLike)) else otherwise


def open_picture(image: ImageLike, what: str) -> Image.Image:
    """Decoded and upright, whatever it was given as; every way it can be bad has its own sentence."""
    array = as_array(image, what)
    if array is not None:
        opened = _from_array(array, what)
    else:
        with decoded(image, what) as file:
            opened = _upright(file)
    if min(opened.size) < SMALLEST:
        raise InputError(
            f"{describe(image, what)}: {opened.width}x{opened.height} is too small; the {what} needs at "
            f"least {SMALLEST} pixels a side"
        )
    return opened


@contextmanager
def decoded(image: ImageLike, what: str) -> Iterator[Image.Image]:
    """A picture that is no array, its pixels in memory, with all that its file says of it still at hand."""
    name = describe(image, what)
    if isinstance(image, Image.Image):
        with careful(name, what):
            image.load()
            yield image
        return
    with _file(image, what) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size == 0:
            raise InputError(f"{name}: the file is empty (0 bytes); save or copy the {what} again")
        if size > LARGEST_FILE:
            raise InputError(
                f"{name}: {size:,} bytes are too many; shrink the {what} below {LARGEST_FILE >> 30} GB"
            )
        with careful(name, what):
            opened = Image.open(file, formats=_formats())
            if opened.width * opened.height > LARGEST:
                raise InputError(
                    f"{name}: {opened.width}x{opened.height} pixels are too many; shrink the {what} below "
                    f"{LARGEST:,} pixels"
                )
            frames = getattr(opened, "n_frames", 1)
            if frames > 1 and opened.format != "MPO":  # MPO: a camera's JPEG with its preview behind it
                kind = (
                    f"a file of {frames} pages"
                    if opened.format == "TIFF"
                    else f"an animation of {frames} frames"
                )
                raise InputError(f"{name}: {kind}; save the one you want as a PNG")
            opened.load()
            yield opened


def peek(image: ImageLike, what: str) -> tuple[str, int, int]:
    """Format, width and height of a file, from its first bytes: for those who have limits of their own."""
    name = describe(image, what)
    with _file(image, what) as file, careful(name, what):
        opened = Image.open(file, formats=_formats())
        return str(opened.format), opened.width, opened.height


@contextmanager
def careful(name: str, what: str) -> Iterator[None]:
    """Whatever a decoder does inside: nothing on the screen, and nothing raised but InputError."""
    try:
        with _quiet():
            yield
    except InputError:
        raise
    except Image.DecompressionBombError as error:
        raise InputError(
            f"{name}: far too many pixels; shrink the {what} below {LARGEST:,} pixels"
        ) from error
    except UnidentifiedImageError as error:
        raise InputError(
            f"{name}: not a picture that can be read; use PNG, JPEG, WebP or TIFF of 8 or 16 bits"
        ) from error
    except MemoryError as error:
        raise InputError(f"{name}: does not fit into memory; shrink the {what}") from error
    except Exception as error:  # decoders fail in many ways, and a file that cannot be decoded is bad
        reason = shown(str(error) or type(error).__name__)
        raise InputError(f"{name}: damaged or cut short ({reason}); save or copy the {what} again") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings of Pillow's and no messages of libtiff's. Both are set for the whole process, so one thread
    at a time.
    """
    with _decoding, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = [set_handler(None) for set_handler in _libtiff_handlers()]
        try:
            yield
        finally:
            for set_handler, handler in zip(_libtiff_handlers(), before, strict=True):
                set_handler(handler)


@cache
def _libtiff_handlers() -> tuple[Callable[[int | None], int | None], ...]:
    """What sets who hears of libtiff's errors and warnings; by itself it writes them on the screen."""
    try:
        library = ctypes.CDLL(sys.modules["PIL._imaging"].__file__)
        setters = (library.TIFFSetErrorHandler, library.TIFFSetWarningHandler)
    except (KeyError, TypeError, OSError, AttributeError):  # built in some other way
        return ()
    for setter in setters:
        setter.restype, setter.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    return setters


@cache
def _formats() -> tuple[str, ...]:
    """Those of our formats that this Pillow knows."""
    for module in ("Avif", "Bmp", "Gif", "Jpeg", "Mpo", "Png", "Tiff", "WebP"):
        with suppress(ImportError):
            import_module(f"PIL.{module}ImagePlugin")
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _upright(image: Image.Image) -> Image.Image:
    """A copy turned as EXIF says. Nothing else of it is looked at; what cannot be parsed says nothing."""
    try:
        turn = TURNS.get(image.getexif().get(0x0112, 1))
    except Exception:
        turn = None
    return image.copy() if turn is None else image.transpose(turn)


# ------------------------------------------------------------------------------------------------ kinds


def as_array(image: ImageLike, what: str) -> np.ndarray | None:
    """The array behind an array (h, w), (h, w, c), or a tensor, also (c, h, w) or (1, c, h, w); else None."""
    if isinstance(image, np.ndarray):
        return image
    torch = sys.modules.get("torch")  # whoever has a tensor has imported it; another thread may be at it
    if torch is None or not hasattr(torch, "Tensor") or not isinstance(image, torch.Tensor):
        return None
    try:
        tensor = image.detach().cpu()
        array: np.ndarray = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    except (RuntimeError, TypeError) as error:
        raise InputError(f"{what}: a tensor that holds no plain numbers ({error})") from error
    if array.ndim == 4 and len(array) == 1:
        array = array[0]
    if array.ndim == 3 and array.shape[0] in CHANNELS and array.shape[2] not in CHANNELS:
        array = np.moveaxis(array, 0, -1)
    return array


def file_bytes(image: ImageLike, what: str = "image") -> bytes | None:
    """The file behind a picture given as bytes or as an open file, which is left at its beginning; else
    None.
    """
    if isinstance(image, (bytes, bytearray, memoryview)):
        return bytes(image)
    if not callable(getattr(image, "read", None)) or isinstance(image, (str, os.PathLike)):
        return None
    stream: Any = image
    try:
        stream.seek(0)
        data = stream.read(LARGEST_FILE + 1)
        stream.seek(0)
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(
            f"{what}: the open file cannot be read from its beginning ({error}); give a path, or its bytes"
        ) from error
    if not isinstance(data, bytes):
        raise InputError(f"{what}: the file is open as text; open it with mode 'rb'")
    return data


def _file(image: ImageLike, what: str) -> BinaryIO:
    if isinstance(image, (str, os.PathLike)):
        return open_regular(image, what)
    data = file_bytes(image, what)
    if data is None:
        raise InputError(
            f"{what}: {type(image).__name__} is no picture; give a path, a PIL image, an array, a tensor, an "
            "open file or its bytes"
        )
    return io.BytesIO(data)


def _from_array(array: np.ndarray, what: str) -> Image.Image:
    if array.size == 0 or array.ndim not in (2, 3) or array.shape[2:] not in ((), (1,), (3,), (4,)):
        raise InputError(f"{what}: an array of shape {array.shape}; give (h, w), (h, w, 3) or (h, w, 4)")
    if array.shape[2:] == (1,):
        array = array[..., 0]
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1:
            raise InputError(
                f"{what}: float arrays hold values from 0 to 1, none of them NaN or infinite; scale yours"
            )
        array = (array * 255).round().astype(np.uint8)
    elif array.dtype == bool:
        array = array.astype(np.uint8) * 255
    elif array.dtype == np.uint16 and array.ndim == 3:
        array = ((array.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)
    elif array.dtype not in (np.uint8, np.uint16):
        raise InputError(
            f"{what}: an array of {array.dtype}; give uint8, uint16, bool, or floats from 0 to 1"
        )
    return Image.fromarray(np.ascontiguousarray(array))
