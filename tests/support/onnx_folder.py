"""Folders of small real ONNX embedders in the layout of sentence-transformers, made in the test."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper, save
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from whence.models.installed import find_model, shipped_graph
from whence.models.weights import EMBEDDER_NAME

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def write_json(folder: Path, **contents: Any) -> None:
    """Write JSON files; `__` in a name is `/`."""
    for name, content in contents.items():
        path = folder / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))


def minilm_folder(folder: Path) -> Path:
    """Write the local model in float32 as sentence-transformers lays it out."""
    source = find_model(EMBEDDER_NAME)
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(shipped_graph("minilm-fp32.onnx"))
    for name in ("model.safetensors", "tokenizer.json"):
        try:
            os.link(source / name, folder / name)
        except OSError:
            shutil.copy2(source / name, folder / name)
    write_json(
        folder,
        config={"hidden_size": 384, "max_position_embeddings": 512, "model_type": "bert"},
        modules=[
            {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
        ],
        sentence_bert_config={"max_seq_length": 256, "do_lower_case": False},
    )
    write_json(
        folder,
        **{
            "1_Pooling__config": {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True}
        },
    )
    return folder


def table_folder(
    folder: Path, words: list[str], pooling: dict[str, Any], **contents: Any
) -> NDArray[np.float32]:
    """Write a model whose token vectors are rows of a table plus their place; return the table.

    It wants all inputs of a BERT encoder, the types of tokens as int32.
    """
    folder.mkdir(parents=True)
    vocabulary = {word: place for place, word in enumerate((*_SPECIAL, *words))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.enable_padding(length=40)  # which a model must not see
    tokenizer.save(str(folder / "tokenizer.json"))
    table = np.random.default_rng(7).normal(size=(len(vocabulary), 4)).astype(np.float32)
    _write_graph(folder / "onnx" / "model.onnx", table)
    write_json(folder, **{"1_Pooling__config": {"word_embedding_dimension": 4, **pooling}})
    write_json(folder, **{"sentence_bert_config": {"max_seq_length": 12}, **contents})
    return table


def _write_graph(path: Path, table: NDArray[np.float32]) -> None:
    path.parent.mkdir()
    kinds = {
        "input_ids": TensorProto.INT64,
        "attention_mask": TensorProto.INT64,
        "token_type_ids": TensorProto.INT32,
    }
    nodes = [
        helper.make_node(kind, list(given), [made], **attributes)
        for kind, given, made, attributes in (
            ("Gather", ("table", "input_ids"), "words", {}),
            ("Cast", ("attention_mask",), "mask", {"to": TensorProto.FLOAT}),
            ("Cast", ("token_type_ids",), "types", {"to": TensorProto.FLOAT}),
            ("Sub", ("mask", "types"), "weights", {}),
            ("CumSum", ("weights", "one"), "place", {}),
            ("Unsqueeze", ("place", "two"), "places", {}),
            ("Add", ("words", "places"), "last_hidden_state", {}),
        )
    ]
    constants = {"table": table, "one": np.array(1), "two": np.array([2])}
    graph = helper.make_graph(
        nodes,
        "table",
        [helper.make_tensor_value_info(name, kind, ["b", "l"]) for name, kind in kinds.items()],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["b", "l", 4])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
