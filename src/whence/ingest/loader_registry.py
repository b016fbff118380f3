"""Find the loader of a file, among the built-in ones and those of the entry-point group `whence.loaders`."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from whence.ingest import loaders
from whence.ingest.loaders.base import Loader
from whence.ingest.sources import SourceFile
from whence.schema.errors import ConfigError
from whence.schema.plugins import load_plugin, plugin_names

GROUP = "whence.loaders"


def loader_for(file: SourceFile) -> Loader:
    """Return the loader for the suffix of a file, which must be a supported one."""
    return loaders_by_suffix()[file.suffix]


@cache
def loaders_by_suffix() -> Mapping[str, Loader]:
    """Return all loaders by the suffixes they read.

    Cost: about 20 ms, once; the libraries that read a format are imported with its first file.
    """
    found: dict[str, tuple[str, Loader]] = {}
    for origin, loader in (*_built_in(), *_plugins()):
        for suffix in loader.suffixes:
            other, _ = found.setdefault(suffix, (origin, loader))
            if other != origin:
                raise ConfigError(
                    f"{other} and {origin} both read {suffix} files",
                    hint="uninstall one of the two packages",
                )
    return {suffix: loader for suffix, (_, loader) in found.items()}


def _built_in() -> Iterator[tuple[str, Loader]]:
    for module in pkgutil.iter_modules(loaders.__path__):
        declared = getattr(import_module(f"{loaders.__name__}.{module.name}"), "LOADERS", ())
        for loader in declared:
            yield f"the built-in loader for {loader.name}", loader


def _plugins() -> Iterator[tuple[str, Loader]]:
    for name in plugin_names(GROUP):
        loader = load_plugin(GROUP, name)
        if not isinstance(loader, Loader):
            raise ConfigError(
                f"the plug-in {name!r} of group {GROUP} is {type(loader).__name__}, not a Loader",
                hint="its entry point must name a whence.ingest.loaders.base.Loader",
            )
        yield f"the plug-in {name!r}", loader
