"""The committed graphs are what the builder makes, and the layout of the data files is consistent."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from whence.models.encoders import ENCODERS, MINILM
from whence.models.installed import shipped_graph
from whence.models.weight_formats import read_safetensors

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

    shapes = {one.graph: one.shape for one in ENCODERS}
    for name, data in builder.graphs().items():
        model = onnx.load_from_string(data)
        places = {
            "model.safetensors": builder.safetensors_places(),
            "w8.bin": builder.w8_places(shapes.get(name, MINILM.shape)),
        }
        ends = {
            file: max(place.offset + place.length for place in some.values())
            for file, some in places.items()
        }

        assert len(data) < 60_000, name
        for tensor in model.graph.initializer:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            if entries:
                end = int(entries["offset"]) + int(entries["length"])
                assert end <= ends[entries["location"]]
            else:
                assert len(tensor.raw_data) < 200


def test_tensors_do_not_overlap(builder: ModuleType) -> None:
    """Tensors follow one another in their file."""
    all_places = [builder.w8_places(one.shape) for one in ENCODERS]
    for places in (builder.safetensors_places(), *all_places):
        end = 0
        for place in places.values():
            assert place.offset >= end
            end = place.offset + place.length


def test_w8_tensors_are_aligned(builder: ModuleType) -> None:
    """Every tensor of the derived file starts at a multiple of 64 bytes."""
    for one in ENCODERS:
        assert {place.offset % 64 for place in builder.w8_places(one.shape).values()} == {0}


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"\x02" + b"\0" * 7 + b"{}" + b"\0" * 9000])
def test_other_weights_are_refused(tmp_path: Path, content: bytes) -> None:
    """A file that is not laid out like the published one is refused."""
    (tmp_path / "model.safetensors").write_bytes(content)

    with pytest.raises((ValueError, KeyError)):
        read_safetensors(tmp_path / "model.safetensors")["embeddings.LayerNorm.bias"]
