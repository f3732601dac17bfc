"""A hub model's local folder: from the hub's cache, completed or downloaded where that is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..job import InputError
from .parts import pieces, weight_files
from .text import STEMS, STORED

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
PARTS: dict[str, Sequence[str]] = {
    "unet": ("diffusion_pytorch_model",),
    "vae": ("diffusion_pytorch_model",),
    "text_encoder": STEMS,
}
VOCABULARY = ("vocab.json", "tokenizer.json")  # one of them is enough


def is_hub_id(text: str) -> bool:
    """Whether a name can only be a hub's "someone/model"; files and folders have been looked for before."""
    return HUB_ID.fullmatch(text) is not None and not text.endswith((".safetensors", ".ckpt"))


def wanted_files(names: Iterable[str]) -> list[str]:
    """Which of a hub model's files mast uses: one variant of the weights, not all that are published."""
    there = set(names)
    wanted = {"defaults.json", STORED, "scheduler/scheduler_config.json"} & there
    parts = [part for part in PARTS if part != "text_encoder" or STORED not in there]
    for part in parts:
        own = [name.removeprefix(f"{part}/") for name in there if name.startswith(f"{part}/")]
        wanted |= {f"{part}/{name}" for name in ("config.json", *weight_files(own, PARTS[part]))} & there
    if "text_encoder" in parts:
        small = (*VOCABULARY, "tokenizer_config.json", "special_tokens_map.json")
        wanted |= {f"tokenizer/{name}" for name in small} & there
    return sorted(wanted)


def missing_files(folder: Path) -> list[str]:
    """What a hub model's local folder lacks of what mast needs; a link to nothing counts as missing."""
    lacks = []
    for part, stems in PARTS.items():
        if part == "text_encoder" and (folder / STORED).is_file():
            continue
        own = folder / part
        there = [path.name for path in own.iterdir() if path.is_file()] if own.is_dir() else []
        found = weight_files(there, stems)
        if "config.json" not in there:
            lacks.append(f"{part}/config.json")
        if not found:
            lacks.append(f"{part}/{stems[0]}.safetensors")
        elif found[0].endswith(".json"):
            lacks += [f"{part}/{name}" for name in pieces(own / found[0]) if name not in there]
        if part == "text_encoder" and not any((folder / "tokenizer" / name).is_file() for name in VOCABULARY):
            lacks.append(f"tokenizer/{VOCABULARY[0]}")
    return lacks


def fetch(name: str, allow_download: bool = True) -> Path:
    """The local folder of a hub model, all of it; downloaded or completed first, if that is allowed."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError

    folder = _cached(name)
    lacks = missing_files(folder) if folder is not None else []
    if folder is not None and not lacks:
        return folder
    state = f"its local copy lacks {lacks[0]}" if lacks else "not cached"
    command = " ".join(["hf download", name, *lacks])
    otherwise = "or give a local folder or .safetensors file with --model"
    if not allow_download:
        raise InputError(
            f"{name}: {state}, and nothing is downloaded without being asked; fetch it yourself ({command}), "
            f"{otherwise}"
        )
    try:
        wanted = wanted_files(HfApi().list_repo_files(name))
        folder = Path(snapshot_download(name, allow_patterns=wanted))
    except RepositoryNotFoundError as error:
        raise InputError(
            f"{name}: {state}, and the hub shows no such model to this machine; look at its name, or log in "
            f"(hf auth login) if it is private or wants its licence accepted, {otherwise}"
        ) from error
    except Exception as error:
        raise InputError(
            f"{name}: {state} and the hub cannot be reached ({type(error).__name__}); fetch it once where "
            f"there is a network ({command}), {otherwise}"
        ) from error
    lacks = missing_files(folder)
    if lacks:
        raise InputError(
            f"{name}: the hub has no {lacks[0]} of it; give a diffusers model of Stable Diffusion"
        )
    return folder


def _cached(name: str) -> Path | None:
    """The newest snapshot in the hub's cache, whole or not; None where there is none."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=[], local_files_only=True))
    except (LocalEntryNotFoundError, OSError, ValueError):
        return None
