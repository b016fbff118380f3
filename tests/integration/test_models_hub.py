"""Models of a hub with Hugging Face's API: the right files of one commit, checked by their digests."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from tests.support.cross_encoder import write_cross_encoder
from tests.support.model_server import Answer, Server
from tests.support.onnx_folder import table_folder

from whence.models.cross_encoders import install_cross_encoder
from whence.models.factory import ModelSettings, make_embedder, make_reranker
from whence.models.installed import check_files, model_status
from whence.schema.errors import BadInput, ModelMissing, Unavailable

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MEAN = {"pooling_mode_mean_tokens": True}


class Hub:
    """Serves the folders of models by their names, as the hub does; graphs are its large files."""

    def __init__(self, **folders: Path) -> None:
        self.folders = folders
        self.changed: dict[str, bytes] = {}
        """Content that is sent in place of a file."""
        self.listed: dict[str, Any] = {}
        """Fields that replace those of the listing of a file."""

    def __call__(self, path: str, body: Any) -> Answer:
        """Answer a request."""
        parts = unquote(path.partition("?")[0]).strip("/").split("/")
        if parts[0] == "api":
            folder = self.folders.get(parts[3])
            if folder is None or parts[5] not in ("main", COMMIT):
                return 404, {}, b"{}"
            files = [self._entry(one, folder) for one in sorted(folder.rglob("*")) if one.is_file()]
            return 200, {}, json.dumps({"sha": COMMIT, "siblings": files}).encode()
        assert parts[2:4] == ["resolve", COMMIT]
        name = "/".join(parts[4:])
        return 200, {}, self.changed.get(name) or (self.folders[parts[1]] / name).read_bytes()

    def _entry(self, path: Path, folder: Path) -> dict[str, Any]:
        data, name = path.read_bytes(), path.relative_to(folder).as_posix()
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        entry: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": blob}
        if name.endswith(".onnx"):
            entry["blobId"] = "0" * 40  # that of the pointer
            entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        return entry | self.listed.get(name, {})


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    """A hub with an embedder and a reranker, and files that nothing needs."""
    table_folder(tmp_path / "m", ["red", "green"], MEAN)
    (tmp_path / "m" / "pytorch_model.bin").write_bytes(b"weights")
    (tmp_path / "m" / "README.md").write_text("text")
    ranker = write_cross_encoder(tmp_path / "r", ["red", "green"])
    (ranker / "onnx").mkdir()
    (ranker / "model.onnx").rename(ranker / "onnx" / "model.onnx")
    return Hub(tiny=tmp_path / "m", ranker=ranker)


async def test_an_embedder_and_a_reranker_are_installed(hub: Hub, tmp_path: Path) -> None:
    """Only needed files are fetched; the models are found by name, checked, and used."""
    place, settings = tmp_path / "models", ModelSettings(models=tmp_path / "models")
    with Server(hub) as server:
        install_cross_encoder("hf:org/tiny", place, hub_url=server.url)
        install_cross_encoder(f"hf:org/ranker@{COMMIT}", place, hub_url=server.url)

    fetched = {path.rpartition("resolve/")[2] for path, _, _ in server.requests}
    assert not [one for one in fetched if "pytorch" in one or "README" in one]
    assert check_files(place / "tiny").origin == f"hf:org/tiny@{COMMIT}"
    embedder, direct = (make_embedder(f"onnx:{one}", settings) for one in ("tiny", tmp_path / "m"))
    assert (await embedder.embed(["red"])).tobytes() == (await direct.embed(["red"])).tobytes()
    assert embedder.model.revision == direct.model.revision == check_files(place / "tiny").revision
    reranker = make_reranker("auto", settings)
    assert reranker.model == "onnx:ranker"
    scores = [score or 0.0 for score in await reranker.score("red", ["green", "red"])]
    assert scores[0] < scores[1]
    states = {one.name: one.state for one in model_status(models=place)}
    assert (states["tiny"], states["ranker"]) == ("ready", "ready")

    graph = place / "tiny" / "onnx" / "model.onnx"
    graph.write_bytes(graph.read_bytes()[:-1] + b"x")
    with pytest.raises(ModelMissing, match="other contents"):
        await make_embedder("onnx:tiny", settings).embed(["red"])


@pytest.mark.parametrize(
    ("what", "error", "said"),
    [
        ("org/none", BadInput, "no model org/none"),
        ("org/tiny@other", BadInput, "revision other"),
        ("tiny", BadInput, "no model of a hub"),
        ("../tiny", BadInput, "no model of a hub"),
        ("org/..", BadInput, "no model of a hub"),
    ],
)
def test_what_the_hub_does_not_have_is_refused(
    hub: Hub, tmp_path: Path, what: str, error: Any, said: str
) -> None:
    """The error names model and revision; nothing is left behind."""
    with Server(hub) as server, pytest.raises(error, match=said):
        install_cross_encoder(f"hf:{what}", tmp_path / "models", hub_url=server.url)
    assert list((tmp_path / "models").iterdir()) == []


@pytest.mark.parametrize("name", ["onnx/model.onnx", "tokenizer.json"])
def test_a_file_with_another_digest_is_refused(hub: Hub, tmp_path: Path, name: str) -> None:
    """Large and small files are checked by what the listing says of them; one without a digest is refused."""
    data = (hub.folders["tiny"] / name).read_bytes()
    with Server(hub) as server:
        hub.changed[name] = data + b" "
        with pytest.raises(Unavailable, match="is not the file that the hub lists"):
            install_cross_encoder("hf:org/tiny", tmp_path / "models", hub_url=server.url)
        hub.changed, hub.listed[name] = {}, {"blobId": None, "lfs": None}
        with pytest.raises(Unavailable, match=f"lists no digest of {name}"):
            install_cross_encoder("hf:org/tiny", tmp_path / "models", hub_url=server.url)
    assert list((tmp_path / "models").iterdir()) == []


def test_a_model_without_a_graph_is_refused(hub: Hub, tmp_path: Path) -> None:
    """The error says what to look for."""
    (hub.folders["tiny"] / "onnx" / "model.onnx").unlink()
    with Server(hub) as server, pytest.raises(BadInput, match="no ONNX graph"):
        install_cross_encoder("hf:org/tiny", tmp_path / "models", hub_url=server.url)
