"""What a cosine means in a collection, for the encoder, the language and the kind of text that it has.

The score of a passage is defined on cosines of all-MiniLM-L6-v2 (`fusion`). Cosines of another encoder are
mapped to that scale by a rising line, which leaves the order of dense retrieval as it is. It leads the cosines
of unrelated and of related passages of the collection, see `whence.store.vector_statistics`, to where they
would lie for MiniLM. Where that is depends on how much the texts have in common, which their words say.

The fewer passages a sample has, the less it counts: the weight of n passages is n² / (n² + k²). MiniLM's
cosines of English texts count as they are.

An encoder that does not serve a language or a kind of text gives vectors that know less of words than of length
and script. Its weight falls with the agreement of vectors and words.
"""

from __future__ import annotations

from whence.retrieval.fusion import UNCALIBRATED
from whence.schema.embedding import EmbeddingModel
from whence.schema.search import Calibration
from whence.store.vector_statistics import VectorStatistics
from whence.text.languages import DEFAULT_LANGUAGE

#: The encoder whose cosines are the scale.
REFERENCE = "all-MiniLM-L6-v2"
#: The scale: means of MiniLM over four open collections (cacm, cranfield, legalsum, med), see docs/scores.md.
#: Cosine of unrelated passages at a mean overlap of their words, and its growth with the overlap.
UNRELATED, OVERLAP, PER_OVERLAP = 0.20, 0.050, 6.0
#: The overlaps that were measured. Texts of one pattern have more; how MiniLM sees these is not known.
_LEAST_OVERLAP, _MOST_OVERLAP = 0.039, 0.063
#: Cosine of related passages less that of unrelated ones; in standard deviations of the latter.
GAP, GAP_IN_SPREADS = 0.26, 2.06
SPREAD = GAP / GAP_IN_SPREADS
#: Queries lie so many standard deviations further from passages than passages from each other, beside MiniLM's:
#: measured with bge-small-en-v1.5 on cranfield, legalsum and med (.48 less MiniLM's .20).
QUERIES = 0.25
#: k above: of unrelated pairs, of which there are n², and of what takes a related passage in the sample.
_FEW_PAIRS, _FEW = 8, 64
#: A related passage is not closer than this share of what is usual: else the vectors cannot tell it.
_LEAST_GAP = 2 / 3
#: Agreement where nothing is known; .84 to .93 were measured on collections that their encoder serves.
SERVED = 0.92
#: Agreement from which on an encoder has its whole weight, and up to which it has none. English texts with each
#: letter exchanged for another, so that no word is left, had .70 with MiniLM; in Georgian letters .57. The
#: whole weight begins half-way from there to the usual.
_WHOLE_WEIGHT, _NO_WEIGHT = 0.81, 0.70
#: Share of the whole weight below which the encoder counts as not serving the language.
_HALF = 0.5


def calibrate(model: EmbeddingModel | None, found: VectorStatistics | None) -> Calibration:
    """Return what the cosines of a collection mean.

    Args:
        model: Of its vectors.
        found: How its passages compare; None when there are too few.
    """
    if model is None or found is None:
        return Calibration(encoder="" if model is None else model.name)
    few = _trust(found.judged, _FEW)
    slope, offset = 1.0, 0.0
    if (model.name, found.language) != (REFERENCE, DEFAULT_LANGUAGE):
        slope, offset = _line(found)
    agreement = SERVED + few * (found.agreement - SERVED)
    served = min(1.0, max(0.0, (agreement - _NO_WEIGHT) / (_WHOLE_WEIGHT - _NO_WEIGHT)))
    return Calibration(
        encoder=model.name,
        language=found.language,
        passages=found.passages,
        unrelated=found.unrelated,
        related=found.related,
        agreement=found.agreement,
        slope=slope,
        offset=offset,
        dense_weight=round(UNCALIBRATED.dense_weight * served, 4),
    )


def _line(found: VectorStatistics) -> tuple[float, float]:
    """Return slope and offset of the line from the cosines of a sample to the scale."""
    pairs, few = _trust(found.passages, _FEW_PAIRS), _trust(found.judged, _FEW)
    overlap = min(_MOST_OVERLAP, max(_LEAST_OVERLAP, found.overlap))
    on_scale = UNRELATED + few * PER_OVERLAP * (overlap - OVERLAP)
    spread = SPREAD + pairs * (found.spread - SPREAD)
    unrelated = on_scale + pairs * (found.unrelated - QUERIES * spread - on_scale)
    usual = GAP_IN_SPREADS * spread
    gap = usual + few * (found.related - found.unrelated - usual)
    slope = round(GAP / max(gap, _LEAST_GAP * usual, 1e-6), 4)
    return slope, round(on_scale - slope * unrelated, 4)


def _trust(passages: int, few: int) -> float:
    return passages**2 / (passages**2 + few**2)


def not_served(calibration: Calibration) -> str:
    """Return why the encoder does not serve the passages of a collection; empty when it does."""
    if calibration.dense_weight >= _HALF * UNCALIBRATED.dense_weight:
        return ""
    return (
        f"{calibration.encoder} does not tell passages of this collection ({calibration.language}) apart as their words"
        f" do (agreement {calibration.agreement}, {SERVED} is usual): words decide nearly alone"
    )
