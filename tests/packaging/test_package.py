"""What the package exports, what it loads, and what the wheel holds."""

from __future__ import annotations

import json
import pkgutil
import runpy
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from tests.support.base_size import BASE_LIMIT, base_size

import whence
from whence.schema.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
#: Their frameworks are tested in environments of their own.
FRAMEWORKS = {f"whence.integrations.{name}" for name in ("haystack", "langchain", "llama_index")}
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(whence.__path__, "whence.")
    if not module.name.endswith("__main__") and module.name not in FRAMEWORKS
)
HEAVY = {
    "numpy",
    "onnxruntime",
    "asyncpg",
    "rdflib",
    "httpx",
    "pulsar",
    "_pulsar",
    "flashrank",
    "torch",
}


def loaded_by(statement: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


CHECK_EXPORTS = """
import importlib, sys
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", ())
    assert isinstance(exported, tuple), (name, "is no tuple")
    assert len(exported) == len(set(exported)), (name, "names something twice")
    missing = [item for item in exported if not hasattr(module, item)]
    assert not missing, (name, missing)
"""


def test_every_module_imports() -> None:
    """Every module imports in a fresh interpreter, and the names of its `__all__` exist."""
    done = subprocess.run(
        [sys.executable, "-c", CHECK_EXPORTS, *MODULES], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


def test_the_public_names_are_fixed() -> None:
    """`from whence import ...` offers a fixed list of names."""
    assert set(whence.__all__) == {"Access", "Engine", "RetrievalResult", "Retriever"}
    for name in whence.__all__:
        assert getattr(whence, name).__name__ == name


@pytest.mark.parametrize(
    "statement", ["import whence", "import whence.surfaces.cli.main", "import whence.schema"]
)
def test_importing_loads_nothing_heavy(statement: str) -> None:
    """The command line starts without models, database drivers or RDF."""
    assert not loaded_by(statement) & HEAVY


def test_the_base_is_small() -> None:
    """The base takes less than 320 MB without Python's compiled files; no extra is part of it."""
    sizes, absent = base_size()
    # The lock files leave it out, with hf-xet and what else it requires alone: pip installs these.
    hub = 20_000_000 if absent == ["huggingface-hub"] else 0

    assert sum(sizes.values()) + hub < BASE_LIMIT, sorted(sizes.items(), key=lambda one: -one[1])
    assert hub or not absent
    assert not {"cryptography", "tree-sitter", "opentelemetry-sdk", "qdrant-client"} & set(sizes)
    assert {"pulsar-client", "asyncpg", "pgvector", "rdflib", "flashrank", "tenacity"} <= set(sizes)


def test_torch_is_never_a_dependency() -> None:
    """No lock file names torch or CUDA."""
    for lock in ROOT.glob("requirements*.lock"):
        text = lock.read_text()
        assert "torch==" not in text
        assert "nvidia" not in text


def test_lock_files_have_no_addresses() -> None:
    """A lock file has names and hashes, no download addresses."""
    for lock in ROOT.glob("requirements*.lock"):
        assert "://" not in lock.read_text()
        assert "--index-url" not in lock.read_text()


def test_the_version_is_that_of_the_distribution() -> None:
    """Traces, metrics and `--version` state the version of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["version"] == VERSION


def test_every_runtime_dependency_is_locked() -> None:
    """Each dependency of pyproject.toml, and of the extras of `make setup`, is pinned with a hash."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    locked_extras = runpy.run_path(str(ROOT / "tools" / "lock.py"))["EXTRAS"]
    installed = [requirement for name in locked_extras for requirement in extras[name]]
    locked = (ROOT / "requirements.lock").read_text()
    for requirement in project["dependencies"] + installed:
        name = requirement.split(">")[0].split("<")[0].split("=")[0].strip()
        assert f"\n{name}==" in "\n" + locked, name


@pytest.mark.slow
def test_the_wheel_contains_only_the_package(tmp_path: Path) -> None:
    """The wheel has one top-level package, its flows, migrations and graphs, and the type marker."""
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
         "--wheel-dir", tmp_path, ROOT],
        check=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("whence-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}

    assert {top for top in tops if not top.endswith(".dist-info")} == {"whence"}
    assert "whence/py.typed" in names
    assert any(name.endswith(".sql") for name in names)
    assert any(name.endswith(".onnx") for name in names)
    assert any(name.endswith("document-rag.yaml") for name in names)
    assert "whence/examples/demo_questions.json" in names
    # Weights or the data of a test would be far larger; words of languages take a twentieth.
    assert wheel.stat().st_size < 2_200_000


def test_release_notes() -> None:
    """A release has the notes of its version; without them, or with another tag, there is none."""
    release_notes = runpy.run_path(str(ROOT / "tools" / "release.py"))["release_notes"]
    changelog = "# Changelog\n\n## Unreleased\n\nlater\n\n## 1.10.0 - 2027-01-02\n\n### Added\n\n- this\n\n## 1.1.0\n"

    assert release_notes("v1.10.0", "1.10.0", changelog) == "### Added\n\n- this\n"
    for tag, version in [("1.10.0", "1.10.0"), ("v1.1.0", "1.10.0"), ("v1.1.0", "1.1.0")]:
        with pytest.raises(ValueError, match=r"tag is|no section"):
            release_notes(tag, version, changelog)
