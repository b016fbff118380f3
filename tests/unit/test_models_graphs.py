"""The committed graphs are what the builder makes, and the layout of the data files is consistent."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from whence.models.installed import shipped_graph
from whence.models.weights import write_w8

BUILDER = Path(__file__).resolve().parents[2] / "tools" / "build_graphs.py"


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    pytest.importorskip("onnx", reason="onnx is a development dependency")
    spec = importlib.util.spec_from_file_location("build_graphs", BUILDER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["build_graphs"] = module
    spec.loader.exec_module(module)
    return module


def test_graphs_equal_those_of_the_builder(builder: ModuleType) -> None:
    """Building again yields the committed bytes."""
    for name, data in builder.graphs().items():
        assert shipped_graph(name) == data, f"run tools/build_graphs.py for {name}"


def test_graphs_contain_no_weights(builder: ModuleType) -> None:
    """A graph is small, and its external data lies inside the known tensors of the data file."""
    import onnx

    ends = {
        "model.safetensors": max(
            p.offset + p.length for p in builder.safetensors_places().values()
        ),
        "w8.bin": max(p.offset + p.length for p in builder.w8_places().values()),
    }
    for name, data in builder.graphs().items():
        model = onnx.load_from_string(data)

        assert len(data) < 50_000, name
        for tensor in model.graph.initializer:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            if entries:
                end = int(entries["offset"]) + int(entries["length"])
                assert end <= ends[entries["location"]]
            else:
                assert len(tensor.raw_data) < 200


def test_tensors_do_not_overlap(builder: ModuleType) -> None:
    """Tensors follow one another in their file."""
    for places in (builder.safetensors_places(), builder.w8_places()):
        end = 0
        for place in places.values():
            assert place.offset >= end
            end = place.offset + place.length


def test_w8_tensors_are_aligned(builder: ModuleType) -> None:
    """Every tensor of the derived file starts at a multiple of 64 bytes."""
    assert {place.offset % 64 for place in builder.w8_places().values()} == {0}


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"\x02" + b"\0" * 7 + b"{}" + b"\0" * 9000])
def test_other_weights_are_refused(tmp_path: Path, content: bytes) -> None:
    """A file that is not laid out like the published one is refused."""
    (tmp_path / "model.safetensors").write_bytes(content)

    with pytest.raises((ValueError, KeyError)):
        write_w8(tmp_path / "model.safetensors", tmp_path / "w8.bin")
