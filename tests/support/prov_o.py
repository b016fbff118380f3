"""Check that a trace is PROV-O: load it with `prov`, validate it with our shapes, or look at its triples."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

import pyshacl
import rdflib
from prov.model import ProvBundle, ProvDocument

from whence.provenance import namespaces as ns
from whence.provenance.render.rdf import prov_o
from whence.schema.terms import Triple, iri, literal

_CLASSES = {ns.PROV_ENTITY, ns.PROV_ACTIVITY, ns.PROV_AGENT}
#: Class of subject and object of each relation.
_RELATIONS = {
    ns.PROV_WAS_DERIVED_FROM: (ns.PROV_ENTITY, ns.PROV_ENTITY),
    ns.PROV_WAS_GENERATED_BY: (ns.PROV_ENTITY, ns.PROV_ACTIVITY),
    ns.PROV_USED: (ns.PROV_ACTIVITY, ns.PROV_ENTITY),
    ns.PROV_WAS_ASSOCIATED_WITH: (ns.PROV_ACTIVITY, ns.PROV_AGENT),
}


def load(text: str, parser: str) -> ProvBundle:
    """Load RDF with `prov`; every attribute of every record must be understood."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("error", message="The following attributes were not converted")
        # N-Quads have no prefixes to name what is read with.
        warnings.filterwarnings("ignore", message=".* was minted for it")
        document = ProvDocument.deserialize(content=text, format="rdf", rdf_format=parser)
    return next(iter(document.bundles), document)


@cache
def _shapes(name: str) -> rdflib.Graph:
    text = (files("whence.provenance") / name).read_text("utf-8")
    return rdflib.Graph().parse(data=text, format="turtle")


def violations(text: str, shapes: str = "shapes.ttl") -> str:
    """Return what our shapes report of Turtle or TriG; empty when they hold."""
    with warnings.catch_warnings():
        # rdflib and pyshacl use names of rdflib that it has deprecated.
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        dataset = rdflib.Dataset(default_union=True).parse(data=text, format="trig")
        graph = rdflib.Graph()
        for triple in dataset.triples((None, None, None)):
            graph.add(triple)
        conforms, _, report = pyshacl.validate(graph, shacl_graph=_shapes(shapes))
    return "" if conforms else report


def triple_of(row: Mapping[str, str]) -> Triple:
    """Return a triple of `explain --json`."""
    is_iri = row["o_kind"] == "iri"
    target = iri(row["o"]) if is_iri else literal(row["o"], row["datatype"])
    return Triple(iri(row["s"]), iri(row["p"]), target, row["g"])


def prov_faults(triples: Iterable[Triple]) -> list[str]:
    """Return where the triples of Turtle are not PROV-O: classes, ends of relations, times, long nodes."""
    triples = set(prov_o(triples))
    kinds: dict[str, set[str]] = defaultdict(set)
    for triple in triples:
        if triple.p.iri == ns.RDF_TYPE:
            kinds[triple.s.iri] |= {triple.o.iri} & _CLASSES
    faults = []
    for subject, count in Counter(triple.s.iri for triple in triples).items():
        if len(kinds[subject]) != 1:
            faults.append(f"{subject} has the classes {sorted(kinds[subject])}")
        if count > 100:
            faults.append(f"{subject} has {count} triples")
    for triple in triples:
        relation, ends = triple.p.iri, (triple.s.iri, triple.o.iri)
        for end, kind in zip(ends, _RELATIONS.get(relation, ()), strict=False):
            if kinds[end] != {kind}:
                faults.append(f"{end} is no {kind} of {relation}")
        if relation in {ns.PROV_STARTED_AT_TIME, ns.PROV_ENDED_AT_TIME} and (
            kinds[triple.s.iri] != {ns.PROV_ACTIVITY}
            or triple.o.datatype != ns.XSD_DATE_TIME
            or not triple.o.value.endswith("Z")
        ):
            faults.append(f"{relation} of {triple.s.iri} is {triple.o}")
    return faults
