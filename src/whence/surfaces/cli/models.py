"""`whence models`: list the local models, install them and check them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whence.surfaces.cli.output import console, note, plain_table, print_json, progress, size
from whence.surfaces.cli.session import as_json, settings_of

#: More languages are counted instead of listed.
_MOST_LANGUAGES = 4


def install(
    context: typer.Context,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME|hf:OWNER/NAME|FOLDER|ZIP]",
            help="An encoder that `models list` names; or a cross-encoder or embedder: a name on flashrank's hub, "
            "one on Hugging Face's, a folder or an archive.",
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="PATH",
            help="Archive or folder with the weights; downloaded by default.",
        ),
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--to", metavar="FOLDER", help="Folder to install into.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check the hashes of installed files.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing on success.")] = False,
) -> int:
    """Install the local model, another encoder, or a cross-encoder or embedder, and check the hashes.

    WHENCE_EMBEDDER=NAME uses an installed encoder of `models list`.
    An installed cross-encoder is the reranker of WHENCE_RERANKER=auto, and decides the order alone.
    WHENCE_EMBEDDER=onnx:NAME uses an installed embedder.
    """
    from whence.models.cross_encoders import install_cross_encoder
    from whence.models.encoders import MINILM, find_encoder
    from whence.models.installation import install_encoder

    encoder = MINILM if what is None else find_encoder(what)
    place = target or settings_of(context).models
    with progress("downloading the models") as moved:
        if encoder is not None:
            report = install_encoder(encoder, place, source=source, verify=verify, progress=moved)
        else:
            report = install_cross_encoder(str(what), place, progress=moved)
    if as_json(context):
        print_json(report)
    elif report.installed:
        names = ", ".join(report.models)
        note(f"{names} installed in {report.target} from {report.source}")
    elif not quiet:
        note(f"models are already installed in {report.target}")
    return 0


def list_models(context: typer.Context) -> int:
    """List the models that can be installed by name, and those that are installed."""
    from whence.models.installed import listed_models

    settings = settings_of(context)
    models = listed_models(settings.home, settings.models)
    if as_json(context):
        print_json({"models": models})
        return 0
    table = plain_table("name", "role", "installed", "size", "languages", "source")
    for one in models:
        many = len(one.languages) > _MOST_LANGUAGES
        languages = f"{len(one.languages)}" if many else " ".join(one.languages)
        table.add_values(
            one.name,
            one.role,
            "yes" if one.installed else "no",
            size(one.bytes),
            languages,
            one.source,
        )
    console().print(table)
    return 0


def status(context: typer.Context) -> int:
    """Show the state of the installed models; exit 1 when one is missing or damaged."""
    from whence.models.installed import model_status

    settings = settings_of(context)
    models = model_status(settings.home, settings.models, rehash=True)
    if as_json(context):
        print_json({"models": models})
    else:
        for model in models:
            line = f"{model.name:24s} {model.state:9s} {model.folder}"
            console().print(line.rstrip(), markup=False, soft_wrap=True)
            if model.detail:
                note(f"  {model.detail}")
    return 0 if all(model.state == "ready" for model in models) else 1
