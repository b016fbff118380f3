"""IRIs of the vocabulary: those of the W3C, the shared ones, and our own. All names are public.

The shared vocabulary (`https://trustgraph.ai/ns/` with PROV-O) is used as existing consumers of document RAG
traces read it: literals are plain strings, everything lies in `urn:graph:retrieval`. What Whence adds is in
`WH`, where literals carry their XSD datatype, so that numbers are ordered as numbers.
"""


# W3C.

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDF_TYPE = RDF + "type"
RDF_JSON = RDF + "JSON"

RDFS = "http://www.w3.org/2000/01/rdf-schema#"
RDFS_LABEL = RDFS + "label"

XSD = "http://www.w3.org/2001/XMLSchema#"
XSD_STRING = XSD + "string"
XSD_BOOLEAN = XSD + "boolean"
XSD_INTEGER = XSD + "integer"
XSD_DOUBLE = XSD + "double"
XSD_DATE_TIME = XSD + "dateTime"

PROV = "http://www.w3.org/ns/prov#"
PROV_ENTITY = PROV + "Entity"
PROV_ACTIVITY = PROV + "Activity"
PROV_AGENT = PROV + "Agent"
PROV_SOFTWARE_AGENT = PROV + "SoftwareAgent"
PROV_WAS_DERIVED_FROM = PROV + "wasDerivedFrom"
PROV_WAS_REVISION_OF = PROV + "wasRevisionOf"
PROV_WAS_GENERATED_BY = PROV + "wasGeneratedBy"
PROV_USED = PROV + "used"
PROV_WAS_ASSOCIATED_WITH = PROV + "wasAssociatedWith"
PROV_STARTED_AT_TIME = PROV + "startedAtTime"
PROV_ENDED_AT_TIME = PROV + "endedAtTime"
PROV_INVALIDATED_AT_TIME = PROV + "invalidatedAtTime"
PROV_AT_LOCATION = PROV + "atLocation"
#: Text of an entity.
PROV_VALUE = PROV + "value"

DC = "http://purl.org/dc/elements/1.1/"
DC_TITLE = DC + "title"
DC_SOURCE = DC + "source"
DC_DATE = DC + "date"
DC_CREATOR = DC + "creator"

SKOS = "http://www.w3.org/2004/02/skos/core#"
SKOS_DEFINITION = SKOS + "definition"

# The shared vocabulary: questions and answers.

TG = "https://trustgraph.ai/ns/"
TG_QUESTION = TG + "Question"
TG_DOC_RAG_QUESTION = TG + "DocRagQuestion"
TG_GROUNDING = TG + "Grounding"
TG_EXPLORATION = TG + "Exploration"
TG_FOCUS = TG + "Focus"
TG_SYNTHESIS = TG + "Synthesis"
TG_ANSWER_TYPE = TG + "Answer"
TG_CHUNK_SELECTION = TG + "ChunkSelection"
TG_QUERY = TG + "query"
TG_CONCEPT = TG + "concept"
TG_CHUNK_COUNT = TG + "chunkCount"
TG_SELECTED_CHUNK = TG + "selectedChunk"
TG_SCORE = TG + "score"
#: The predicate; the class of documents is `TG_DOCUMENT_TYPE`.
TG_DOCUMENT = TG + "document"
TG_IN_TOKEN = TG + "inToken"
TG_OUT_TOKEN = TG + "outToken"
TG_LLM_MODEL = TG + "llmModel"
TG_ERROR_TYPE = TG + "Error"

# The shared vocabulary: where texts come from.

TG_DOCUMENT_TYPE = TG + "Document"
TG_PAGE_TYPE = TG + "Page"
TG_CHUNK_TYPE = TG + "Chunk"
TG_CONTAINS = TG + "contains"
TG_MIME_TYPE = TG + "mimeType"
TG_PAGE_NUMBER = TG + "pageNumber"
TG_CHUNK_INDEX = TG + "chunkIndex"
TG_EMBEDDING_MODEL = TG + "embeddingModel"

# Vocabulary of Whence.

#: Namespace of everything that Whence adds.
WH = "urn:whence:ns#"

WH_CANDIDATE_TYPE = WH + "Candidate"
WH_CHUNK = WH + "chunk"
WH_DOCUMENT = WH + "document"
WH_RANK = WH + "rank"
WH_SCORE = WH + "score"
WH_DENSE_SCORE = WH + "denseScore"
WH_SPARSE_SCORE = WH + "sparseScore"
#: Part of the score that comes from links between passages.
WH_GRAPH_SCORE = WH + "graphScore"
#: Part of the score for a name equal to the query's identifier.
WH_NAME_SCORE = WH + "nameScore"
#: The concept, or the question itself, whose search returned the candidate.
WH_FOUND_BY = WH + "foundBy"
WH_DIGEST = WH + "digest"
WH_DUPLICATE_OF = WH + "duplicateOf"
WH_NEWER_EDITION = WH + "newerEdition"
WH_RERANK_RANK = WH + "rerankRank"
#: What the reranker's model said.
WH_RERANK_SCORE = WH + "rerankScore"
#: What ordered the passages at reranking.
WH_FINAL_SCORE = WH + "finalScore"
#: Relevance less overlap, when passages were chosen for their diversity.
WH_DIVERSITY_SCORE = WH + "diversityScore"
#: Highest share of terms in common with a passage chosen before.
WH_OVERLAP = WH + "overlap"
#: From a candidate to the IRI of the reason code for which it was dropped.
WH_REASON = WH + "reason"

#: Steps from a candidate to the nearest seed of the walk, 0 for a seed.
WH_DEPTH = WH + "depth"
#: From a candidate to the chunk from which the walk reached it.
WH_PARENT = WH + "parent"
WH_EDGE_TYPE = WH + "Edge"
WH_FROM = WH + "from"
WH_TO = WH + "to"
WH_RELATION = WH + "relation"

#: Number of entities that an activity generated, the stage among them.
WH_GENERATED_COUNT = WH + "generatedCount"
#: Continues a list of a stage that is too long for one node.
WH_PART_TYPE = WH + "Part"
WH_PART_OF = WH + "partOf"
#: What an agent did: `embedding`, `reranker` or `writer`.
WH_ROLE = WH + "role"
WH_VERSION = WH + "version"
WH_REVISION = WH + "revision"
WH_PRECISION = WH + "precision"
WH_DIMENSION = WH + "dimension"
WH_DURATION_MS = WH + "durationMs"
#: A setting of the run, e.g. `wh:setting_doc_limit`.
WH_SETTING_PREFIX = WH + "setting_"
#: All concepts in order, as a JSON array; `tg:concept` has no order.
WH_CONCEPT_ORDER = WH + "conceptOrder"
#: The question with corrected words, and the corrections as a JSON array of objects `{"from", "to"}`.
WH_QUESTION_USED = WH + "questionUsed"
WH_CORRECTIONS = WH + "corrections"

#: A further search of a question, with its queries in order as a JSON array of objects `{"query", "reason"}`.
WH_STEP_TYPE = WH + "Step"
WH_STEP_QUERIES = WH + "stepQueries"

WH_DEGRADATION_TYPE = WH + "Degradation"
WH_STAGE = WH + "stage"
WH_CODE = WH + "code"
WH_MESSAGE = WH + "message"
WH_HINT = WH + "hint"

WH_CITATION_TYPE = WH + "Citation"
WH_MARKER = WH + "marker"
WH_QUOTE = WH + "quote"
#: Offsets in the quote of the words that answer, as a JSON array of pairs.
WH_HIGHLIGHTS = WH + "highlights"
#: Where the quote stands, by field of `Location`.
LOCATION_TERMS = {
    "page": WH + "page",
    "line_start": WH + "lineStart",
    "line_end": WH + "lineEnd",
    "char_start": WH + "charStart",
    "char_end": WH + "charEnd",
    "anchor": WH + "anchor",
    "slide": WH + "slide",
    "sheet": WH + "sheet",
    "row_start": WH + "rowStart",
    "row_end": WH + "rowEnd",
    "message": WH + "messageDate",
}
WH_FOUND = WH + "found"
#: Why there is no answer; its `wh:chunk` and `wh:score` are those of the best passage.
WH_REFUSAL_TYPE = WH + "Refusal"
WH_FLOOR = WH + "floor"
WH_ANSWER_DIGEST = WH + "answerDigest"

# Before version 0.2 a stage led to its nodes, and told of its run itself.

WH_CANDIDATE = WH + "candidate"
WH_CITATION = WH + "citation"
WH_DEGRADATION = WH + "degradation"
WH_EDGE = WH + "edge"
WH_REFUSAL = WH + "refusal"
WH_STARTED_AT = WH + "startedAt"
WH_ENDED_AT = WH + "endedAt"

# Named graphs.

#: Extracted statements.
GRAPH_DEFAULT = ""
#: Sources of the statements and texts.
GRAPH_SOURCE = "urn:graph:source"
#: Traces of questions.
GRAPH_RETRIEVAL = "urn:graph:retrieval"
