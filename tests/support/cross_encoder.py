"""A tiny cross-encoder in flashrank's layout, made in the test: it counts shared words."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from onnx import TensorProto, helper, numpy_helper, save
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def write_cross_encoder(folder: Path, words: Iterable[str]) -> Path:
    """Write a model whose logit is the number of pairs of equal words in query and passage, less one.

    Words that are not given are all unknown, and equal nothing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {word: place for place, word in enumerate((*_SPECIAL, *dict.fromkeys(words)))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(folder / "tokenizer.json"))
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    special = dict(zip(names, _SPECIAL, strict=True))
    for name, content in (
        ("config.json", {"pad_token_id": 0}),
        ("special_tokens_map.json", special),
        ("tokenizer_config.json", {"model_max_length": 512, "pad_token": "[PAD]"}),
    ):
        (folder / name).write_text(json.dumps(content))
    _write_graph(folder / "model.onnx")
    return folder


def _write_graph(path: Path) -> None:
    import numpy as np

    inputs = ("input_ids", "attention_mask", "token_type_ids")
    constants = {
        "axis1": np.array([1]),
        "axis2": np.array([2]),
        "both": np.array([1, 2]),
        "last": np.array(len(_SPECIAL) - 1),
        "zero": np.array(0),
        "one": np.array(1.0, dtype=np.float32),
    }
    nodes = [
        helper.make_node(kind, list(given), [made], **attributes)
        for kind, given, made, attributes in (
            ("Greater", ("input_ids", "last"), "word", {}),
            ("Equal", ("token_type_ids", "zero"), "first", {}),
            ("Not", ("first",), "second", {}),
            ("And", ("word", "first"), "query", {}),
            ("And", ("word", "second"), "passage", {}),
            ("Unsqueeze", ("input_ids", "axis2"), "rows", {}),
            ("Unsqueeze", ("input_ids", "axis1"), "columns", {}),
            ("Equal", ("rows", "columns"), "same", {}),
            ("Unsqueeze", ("query", "axis2"), "asked", {}),
            ("Unsqueeze", ("passage", "axis1"), "read", {}),
            ("And", ("asked", "read"), "pairs", {}),
            ("And", ("same", "pairs"), "shared", {}),
            ("Cast", ("shared",), "counted", {"to": TensorProto.FLOAT}),
            ("ReduceSum", ("counted", "both"), "sum", {"keepdims": 0}),
            ("Sub", ("sum", "one"), "less", {}),
            ("Unsqueeze", ("less", "axis1"), "logits", {}),
        )
    ]
    graph = helper.make_graph(
        nodes,
        "overlap",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
            for name in inputs
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
