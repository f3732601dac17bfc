"""mast studio: the page in the browser, and the server behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ..job import InputError
from .console import note, say
from .options import MACHINE, MODEL, flag, option

SERVER = "Server"
PORT = 8421


def studio(
    port: Annotated[
        int | None, option(SERVER, "N", "The port.", f"{PORT}, or a free one", min=0, max=65535)
    ] = None,
    host: Annotated[
        str,
        option(SERVER, "ADDRESS", "Where it listens; 0.0.0.0 lets others in and needs --token or --auth."),
    ] = "127.0.0.1",
    token: Annotated[
        list[str], option(SERVER, "TOKEN", "Who has it may come in; each token sees only its own pictures.")
    ] = [],  # noqa: B006
    auth: Annotated[list[str], option(SERVER, "NAME:PASSWORD", "Likewise, by name and password.")] = [],  # noqa: B006
    name: Annotated[
        list[str], option(SERVER, "HOST", "Another name under which it is reached, e.g. behind a proxy.")
    ] = [],  # noqa: B006
    data: Annotated[
        Path | None, option(SERVER, "FOLDER", "Where pictures and runs are kept.", "the user's data folder")
    ] = None,
    browser: Annotated[bool, flag("--browser/--no-browser", help="Open the page.", panel=SERVER)] = True,
    model: Annotated[
        str, option(MODEL, "MODEL", "preview (embedded), a hub id, a diffusers folder or a checkpoint file.")
    ] = "preview",
    device: Annotated[str, option(MACHINE, "NAME", "auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Opens the studio: a page to paint regions, choose paintings, and watch it happen."""
    try:
        from ..studio.listening import free_socket
        from ..studio.server import access_for, data_folder, serve
    except ImportError as error:
        raise InputError(f"the studio needs {error.name}; pip install 'mast[studio]'") from error
    folder = data or data_folder()
    bound = free_socket(host, port, PORT)
    people = {}
    for text in auth:
        who, colon, password = text.partition(":")
        if not (colon and who and len(password) >= 8):
            raise InputError("--auth: write NAME:PASSWORD, with a password of at least 8 letters")
        people[who] = password
    access = access_for(host, bound.getsockname()[1], token, people, folder, name)
    said = lambda address: say("the studio is at ", (address, "bold"))
    try:
        serve(access, bound, folder, str(model), device, browser, said)
    except KeyboardInterrupt:
        pass
    note("the studio has stopped; jobs that were not finished go on at the next start")
