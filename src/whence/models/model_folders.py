"""Where local models are looked for, and where they are installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from whence.models.manifest import MANIFEST
from whence.schema.errors import ModelMissing

__all__ = ("MODELS_VARIABLE", "find_model", "install_target", "model_places")

#: Folder of models; when set, no other is looked into.
MODELS_VARIABLE = "WHENCE_MODELS"


def model_places(home: Path | None = None, models: Path | None = None) -> tuple[Path, ...]:
    """Return the folders that may hold models, in the order they are looked into.

    `models`, or `$WHENCE_MODELS`, alone when it is set; else the home's, the Python environment's and
    the user's.
    """
    chosen = models or os.environ.get(MODELS_VARIABLE, "")
    if chosen:
        return (Path(chosen).expanduser(),)
    places = [] if home is None else [Path(home) / "models"]
    places += [_environment_models(), _user_models()]
    return tuple(dict.fromkeys(places))


def find_model(name: str, home: Path | None = None, models: Path | None = None) -> Path:
    """Find the folder of an installed model by name.

    Raises:
        ModelMissing: None of the places has it; the message names them.
    """
    places = model_places(home, models)
    for place in places:
        # A path that no file system takes (too long, say) is a place without models, not an error.
        if os.path.isfile(place / name / MANIFEST):  # noqa: PTH113
            return place / name
    looked = ", ".join(str(place) for place in places)
    raise ModelMissing(f"the model {name} is not installed; looked in {looked}")


def install_target() -> Path:
    """Return the folder that models are installed into when none is named.

    `$WHENCE_MODELS` when set; the Python environment when it is a virtual one that can be written, so
    that removing the environment removes the models; else the user's data folder.
    """
    chosen = os.environ.get(MODELS_VARIABLE, "")
    if chosen:
        return Path(chosen).expanduser()
    virtual = sys.prefix != sys.base_prefix
    if virtual and os.access(sys.prefix, os.W_OK):
        return _environment_models()
    return _user_models()


def _environment_models() -> Path:
    return Path(sys.prefix) / "share" / "whence" / "models"


def _user_models() -> Path:
    from platformdirs import user_data_path

    return user_data_path("whence", appauthor=False) / "models"
