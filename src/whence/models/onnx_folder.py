"""A folder with an ONNX model in the layout of sentence-transformers or of its cross-encoders.

In: a folder, or one graph in it. Out: the graph, the tokenizer, how vectors are made of it, and a digest of all
files that decide the result.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from whence.models.installed import MANIFEST, check_files, file_sha256, model_folders
from whence.schema.errors import ConfigError, ModelMissing

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER: Final = "tokenizer.json"
#: Configuration that decides the result, beside graph and tokenizer.
_CONFIGURATION: Final = (
    "config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "special_tokens_map.json",
    "tokenizer_config.json",
)
#: Names of the file with the longest text, by the kind of network.
_LENGTH_FILES: Final = "sentence_*_config.json"
#: `location` and its value in the entry of a tensor that another file holds (`external_data` in onnx.proto).
_EXTERNAL = re.compile(rb"\n\x08location\x12([\x01-\x7f])")
#: A graph of this size holds its tensors itself.
_MOST_GRAPH_BYTES: Final = 64_000_000
#: Values of `model_max_length` above this stand for "not known".
_MOST_TOKENS: Final = 1_000_000
#: How the vectors of tokens become one, by the name of the switch in `1_Pooling/config.json`.
_POOLINGS: Final = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_MODULES: Final = frozenset({"Transformer", "Pooling", "Normalize"})


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How an embedder of a folder makes a vector."""

    poolings: tuple[str, ...]
    """Ways of pooling whose results are joined; empty when the graph pools."""
    max_tokens: int
    """Tokens that the network reads, special ones included."""
    dimension: int
    """Length of a vector; 0 when the files do not say it."""
    lower: bool = False
    """Whether texts become lower case before they are cut into tokens."""
    pools_prompt: bool = True
    """Whether the tokens of the prompt are pooled as well."""
    prompts: Mapping[str, str] = {}
    """Text before a `query` and before a `document`."""
    others: tuple[str, ...] = ()
    """Modules after pooling that only the graph can compute."""


class OnnxFolder:
    """The files of one model.

    Args:
        what: A folder, a graph in a folder or in its `onnx` folder, or the name of an installed model.
        home: The home whose `models` folder is searched for a name.
        models: The only folder to search, when set.

    Raises:
        ConfigError: There is no such folder or model.
        ModelMissing: It holds no graph, or several and none is chosen, or an installed file is damaged.
    """

    def __init__(self, what: str, home: Path | None = None, models: Path | None = None) -> None:
        path = Path(what).expanduser()
        places = [path, *(folder / what for folder in model_folders(home, models))]
        found = next((one for one in places if one.exists()), None)
        if found is None:
            raise ConfigError(
                f"there is no folder or installed model {what!r}",
                hint="give a folder with model.onnx and tokenizer.json",
            )
        found = found.resolve() if found.is_dir() else found.absolute()
        self.root = found if found.is_dir() else found.parent
        if found.is_file() and self.root.name == "onnx":
            self.root = self.root.parent
        self.name = self.root.name
        if (self.root / MANIFEST).is_file():
            check_files(self.root, rehash=True)
        self.graph = found if found.is_file() else _graph(self.root)

    def digest(self) -> str:
        """Return the SHA-256 over names and contents of all files that decide the result, hexadecimal.

        Cost: the size of the files; about 0.1 s for 100 MB.
        """
        digest = hashlib.sha256()
        for path in sorted(set(self._files())):
            name = path.relative_to(self.root).as_posix()
            digest.update(f"{name} {file_sha256(path)}\n".encode())
        return digest.hexdigest()

    def tokenizer(self) -> Tokenizer:
        """Load the tokenizer, without truncation and padding."""
        from tokenizers import Tokenizer

        path = self.root / TOKENIZER
        if not path.is_file():
            raise self.fault(f"{TOKENIZER} is missing", f"save the fast tokenizer as {TOKENIZER}")
        try:
            tokenizer: Tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise self.fault(f"{TOKENIZER} cannot be loaded: {error}", "save it again") from error
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    def recipe(self) -> Recipe:
        """Read how vectors are made.

        Raises:
            ModelMissing: A file is missing or malformed; the message names it.
        """
        modules = [str(one.get("type", "")) for one in self._list("modules.json")]
        others = [name for one in modules if (name := one.rpartition(".")[2]) not in _MODULES]
        pooling = self.read("1_Pooling/config.json")
        stated = self.read("config_sentence_transformers.json")
        prompts = stated.get("prompts")
        prompts = prompts if isinstance(prompts, dict) else {}
        default = prompts.get(stated.get("default_prompt_name")) or ""
        lengths = self.read(*(path.name for path in sorted(self.root.glob(_LENGTH_FILES))))
        width = pooling.get("word_embedding_dimension") or pooling.get("embedding_dimension")
        poolings = _poolings(pooling)
        if not set(poolings) <= set(_POOLINGS.values()):
            raise self.fault(f"1_Pooling/config.json asks for {poolings[0]!r}", "export it to ONNX")
        return Recipe(
            poolings=poolings,
            max_tokens=self.max_tokens(lengths.get("max_seq_length")),
            dimension=0 if others else int(width or 0) * max(1, len(poolings)),
            lower=bool(lengths.get("do_lower_case")),
            pools_prompt=pooling.get("include_prompt") is not False,
            prompts={
                "query": str(prompts.get("query") or default),
                "document": str(prompts.get("document") or prompts.get("passage") or default),
            },
            others=tuple(others),
        )

    def max_tokens(self, stated: object = None) -> int:
        """Return the tokens that the network reads: the smallest that the files state.

        Args:
            stated: `max_seq_length` of sentence-transformers, when there is one.
        """
        config, tokenizer = self.read("config.json"), self.read("tokenizer_config.json")
        positions = config.get("max_position_embeddings")
        padding = config.get("pad_token_id")
        if config.get("model_type") in ("roberta", "xlm-roberta", "camembert", "mpnet"):
            # These count positions from after the padding token.
            positions = (positions or 0) - (padding or 0) - 1
        known = [stated, tokenizer.get("model_max_length"), positions]
        sizes = [
            int(one) for one in known if isinstance(one, int | float) and 0 < one < _MOST_TOKENS
        ]
        if not sizes:
            raise self.fault(
                "no file states how many tokens it reads",
                'write {"max_seq_length": N} into sentence_bert_config.json',
            )
        return min(sizes)

    def read(self, *names: str) -> dict[str, Any]:
        """Return the object of the first of some JSON files; empty when there is none."""
        for name in names:
            value = self._json(name)
            if value is not None:
                if not isinstance(value, dict):
                    raise self.fault(f"{name} is no JSON object", "correct it")
                return value
        return {}

    def fault(self, what: str, hint: str) -> ModelMissing:
        """Return the error for something that is wrong with the folder."""
        return ModelMissing(f"the model in {self.root} cannot be used: {what}", hint=hint)

    def _list(self, name: str) -> list[dict[str, Any]]:
        value = self._json(name)
        if value is not None and not isinstance(value, list):
            raise self.fault(f"{name} is no JSON list", "correct it")
        return [one for one in value or () if isinstance(one, dict)]

    def _json(self, name: str) -> Any:
        try:
            return json.loads((self.root / name).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise self.fault(f"{name} is not readable JSON", "correct it") from error

    def _files(self) -> Iterator[Path]:
        yield self.graph
        for name in (TOKENIZER, *_CONFIGURATION, "1_Pooling/config.json"):
            if (self.root / name).is_file():
                yield self.root / name
        yield from self.root.glob(_LENGTH_FILES)
        if self.graph.stat().st_size <= _MOST_GRAPH_BYTES:
            data = self.graph.read_bytes()
            for found in _EXTERNAL.finditer(data):
                value = data[found.end() : found.end() + found[1][0]]
                path = self.graph.parent / value.decode("utf-8", "replace")
                if path.is_file() and path.resolve().is_relative_to(self.root):
                    yield path


def _graph(root: Path) -> Path:
    """Return the graph of a folder: `model.onnx`, in its `onnx` folder too, or the only one there is."""
    for path in (root / "model.onnx", root / "onnx" / "model.onnx"):
        if path.is_file():
            return path
    graphs = sorted([*root.glob("*.onnx"), *root.glob("onnx/*.onnx")])
    if len(graphs) == 1:
        return graphs[0]
    found = ", ".join(path.relative_to(root).as_posix() for path in graphs) or "none"
    raise ModelMissing(
        f"the model in {root} must have one .onnx file; found {found}",
        hint="name the graph instead of the folder, or export the model to ONNX",
    )


def _poolings(pooling: Mapping[str, Any]) -> tuple[str, ...]:
    named = pooling.get("pooling_mode")
    if isinstance(named, str):
        return (named,)
    # In the order in which sentence-transformers joins them.
    return tuple(name for switch, name in _POOLINGS.items() if pooling.get(switch))
