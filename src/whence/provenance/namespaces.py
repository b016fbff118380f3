"""Every IRI of the vocabulary, in three parts: W3C, the shared one, and our own.

The shared vocabulary (`https://trustgraph.ai/ns/` with PROV-O) is used exactly as existing consumers of
document RAG traces read it: literals are plain strings, everything lies in `urn:graph:retrieval`. All that
Whence adds lives under `WH`, where literals carry their XSD datatype, so that numbers order as numbers.
"""

from __future__ import annotations

__all__ = (
    "DC",
    "DC_CREATOR",
    "DC_DATE",
    "DC_SOURCE",
    "DC_TITLE",
    "GRAPH_DEFAULT",
    "GRAPH_RETRIEVAL",
    "GRAPH_SOURCE",
    "PROV",
    "PROV_ACTIVITY",
    "PROV_AGENT",
    "PROV_ENTITY",
    "PROV_INVALIDATED_AT_TIME",
    "PROV_STARTED_AT_TIME",
    "PROV_USED",
    "PROV_WAS_ASSOCIATED_WITH",
    "PROV_WAS_DERIVED_FROM",
    "PROV_WAS_GENERATED_BY",
    "RDF",
    "RDFS",
    "RDFS_LABEL",
    "RDF_JSON",
    "RDF_TYPE",
    "SCHEMA",
    "SCHEMA_DESCRIPTION",
    "SCHEMA_DIGITAL_DOCUMENT",
    "SCHEMA_KEYWORDS",
    "SCHEMA_NAME",
    "SKOS",
    "SKOS_DEFINITION",
    "TG",
    "TG_ACTION",
    "TG_AGENT_QUESTION",
    "TG_ANALYSIS",
    "TG_ANSWER",
    "TG_ARGUMENTS",
    "TG_CHAR_LENGTH",
    "TG_CHAR_OFFSET",
    "TG_CHUNK",
    "TG_CHUNK_COUNT",
    "TG_CHUNK_INDEX",
    "TG_CHUNK_OVERLAP",
    "TG_CHUNK_SELECTION",
    "TG_CHUNK_SIZE",
    "TG_COMPONENT_VERSION",
    "TG_CONCEPT",
    "TG_CONCLUSION",
    "TG_CONTAINS",
    "TG_DECOMPOSITION",
    "TG_DOCUMENT",
    "TG_DOCUMENT_TYPE",
    "TG_DOC_RAG_QUESTION",
    "TG_EDGE",
    "TG_EDGE_COUNT",
    "TG_EDGE_SELECTION",
    "TG_ELEMENT_TYPES",
    "TG_EMBEDDING_MODEL",
    "TG_ENTITY",
    "TG_ERROR",
    "TG_EXPLORATION",
    "TG_FINDING",
    "TG_FOCUS",
    "TG_GRAPH_RAG_QUESTION",
    "TG_GROUNDING",
    "TG_IMAGE",
    "TG_IMAGE_COUNT",
    "TG_IN_TOKEN",
    "TG_LLM_DURATION_MS",
    "TG_LLM_MODEL",
    "TG_MIME_TYPE",
    "TG_OBSERVATION",
    "TG_OBSERVATION_TYPE",
    "TG_ONTOLOGY",
    "TG_OUT_TOKEN",
    "TG_PAGE",
    "TG_PAGE_COUNT",
    "TG_PAGE_NUMBER",
    "TG_PATTERN",
    "TG_PATTERN_DECISION",
    "TG_PLAN",
    "TG_PLAN_STEP",
    "TG_QUERY",
    "TG_QUESTION",
    "TG_REASONING",
    "TG_REFLECTION",
    "TG_SCORE",
    "TG_SECTION",
    "TG_SELECTED_CHUNK",
    "TG_SELECTED_EDGE",
    "TG_SOURCE_CHAR_LENGTH",
    "TG_SOURCE_CHAR_OFFSET",
    "TG_SOURCE_TEXT",
    "TG_STEP_NUMBER",
    "TG_STEP_RESULT",
    "TG_SUBAGENT_GOAL",
    "TG_SUBGRAPH",
    "TG_SYNTHESIS",
    "TG_TABLE_COUNT",
    "TG_TASK_TYPE",
    "TG_TERMINATION_REASON",
    "TG_THOUGHT",
    "TG_THOUGHT_TYPE",
    "TG_TOOL_CANDIDATE",
    "TG_TOOL_DURATION_MS",
    "TG_TOOL_ERROR",
    "TG_TOOL_USE",
    "WH",
    "WH_ANSWER_DIGEST",
    "WH_CANDIDATE",
    "WH_CHUNK",
    "WH_CITATION",
    "WH_CITATION_TYPE",
    "WH_CODE",
    "WH_CONCEPT_ORDER",
    "WH_DEGRADATION",
    "WH_DEGRADATION_TYPE",
    "WH_DENSE_SCORE",
    "WH_DEPTH",
    "WH_DIGEST",
    "WH_DOCUMENT",
    "WH_DURATION_MS",
    "WH_EDGE",
    "WH_ENDED_AT",
    "WH_FOUND",
    "WH_FOUND_BY",
    "WH_FROM",
    "WH_GRAPH_SCORE",
    "WH_HINT",
    "WH_MARKER",
    "WH_MESSAGE",
    "WH_NAME_SCORE",
    "WH_PARENT",
    "WH_QUOTE",
    "WH_RANK",
    "WH_REASON",
    "WH_RELATION",
    "WH_RERANK_RANK",
    "WH_RERANK_SCORE",
    "WH_SCORE",
    "WH_SETTING_PREFIX",
    "WH_SPARSE_SCORE",
    "WH_STAGE",
    "WH_STARTED_AT",
    "WH_TO",
    "XSD",
    "XSD_BOOLEAN",
    "XSD_DATE_TIME",
    "XSD_DOUBLE",
    "XSD_INTEGER",
    "XSD_STRING",
)

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
PROV_WAS_DERIVED_FROM = PROV + "wasDerivedFrom"
PROV_WAS_GENERATED_BY = PROV + "wasGeneratedBy"
PROV_USED = PROV + "used"
PROV_WAS_ASSOCIATED_WITH = PROV + "wasAssociatedWith"
PROV_STARTED_AT_TIME = PROV + "startedAtTime"
PROV_INVALIDATED_AT_TIME = PROV + "invalidatedAtTime"

DC = "http://purl.org/dc/elements/1.1/"
DC_TITLE = DC + "title"
DC_SOURCE = DC + "source"
DC_DATE = DC + "date"
DC_CREATOR = DC + "creator"

SCHEMA = "https://schema.org/"
SCHEMA_DIGITAL_DOCUMENT = SCHEMA + "DigitalDocument"
SCHEMA_DESCRIPTION = SCHEMA + "description"
SCHEMA_KEYWORDS = SCHEMA + "keywords"
SCHEMA_NAME = SCHEMA + "name"

SKOS = "http://www.w3.org/2004/02/skos/core#"
SKOS_DEFINITION = SKOS + "definition"

# The shared vocabulary: questions and answers.

TG = "https://trustgraph.ai/ns/"
TG_QUESTION = TG + "Question"
TG_GRAPH_RAG_QUESTION = TG + "GraphRagQuestion"
TG_DOC_RAG_QUESTION = TG + "DocRagQuestion"
TG_AGENT_QUESTION = TG + "AgentQuestion"
TG_GROUNDING = TG + "Grounding"
TG_EXPLORATION = TG + "Exploration"
TG_FOCUS = TG + "Focus"
TG_SYNTHESIS = TG + "Synthesis"
TG_ANSWER = TG + "Answer"
TG_ANALYSIS = TG + "Analysis"
TG_CONCLUSION = TG + "Conclusion"
TG_CHUNK_SELECTION = TG + "ChunkSelection"
TG_EDGE_SELECTION = TG + "EdgeSelection"
TG_QUERY = TG + "query"
TG_CONCEPT = TG + "concept"
TG_ENTITY = TG + "entity"
TG_CHUNK_COUNT = TG + "chunkCount"
TG_EDGE_COUNT = TG + "edgeCount"
TG_SELECTED_CHUNK = TG + "selectedChunk"
TG_SELECTED_EDGE = TG + "selectedEdge"
TG_EDGE = TG + "edge"
TG_REASONING = TG + "reasoning"
TG_SCORE = TG + "score"
#: The predicate; the class of documents is `TG_DOCUMENT_TYPE`.
TG_DOCUMENT = TG + "document"
TG_IN_TOKEN = TG + "inToken"
TG_OUT_TOKEN = TG + "outToken"
TG_LLM_MODEL = TG + "llmModel"

# The shared vocabulary: where texts come from.

TG_DOCUMENT_TYPE = TG + "Document"
TG_PAGE = TG + "Page"
TG_SECTION = TG + "Section"
TG_CHUNK = TG + "Chunk"
TG_IMAGE = TG + "Image"
TG_SUBGRAPH = TG + "Subgraph"
TG_CONTAINS = TG + "contains"
TG_PAGE_COUNT = TG + "pageCount"
TG_MIME_TYPE = TG + "mimeType"
TG_PAGE_NUMBER = TG + "pageNumber"
TG_CHUNK_INDEX = TG + "chunkIndex"
TG_CHAR_OFFSET = TG + "charOffset"
TG_CHAR_LENGTH = TG + "charLength"
TG_CHUNK_SIZE = TG + "chunkSize"
TG_CHUNK_OVERLAP = TG + "chunkOverlap"
TG_COMPONENT_VERSION = TG + "componentVersion"
TG_ONTOLOGY = TG + "ontology"
TG_EMBEDDING_MODEL = TG + "embeddingModel"
TG_SOURCE_TEXT = TG + "sourceText"
TG_SOURCE_CHAR_OFFSET = TG + "sourceCharOffset"
TG_SOURCE_CHAR_LENGTH = TG + "sourceCharLength"
TG_ELEMENT_TYPES = TG + "elementTypes"
TG_TABLE_COUNT = TG + "tableCount"
TG_IMAGE_COUNT = TG + "imageCount"

# The shared vocabulary: agents.

TG_DECOMPOSITION = TG + "Decomposition"
TG_FINDING = TG + "Finding"
TG_PLAN = TG + "Plan"
TG_STEP_RESULT = TG + "StepResult"
TG_REFLECTION = TG + "Reflection"
TG_THOUGHT_TYPE = TG + "Thought"
TG_OBSERVATION_TYPE = TG + "Observation"
TG_TOOL_USE = TG + "ToolUse"
TG_PATTERN_DECISION = TG + "PatternDecision"
TG_ERROR = TG + "Error"
TG_THOUGHT = TG + "thought"
TG_ACTION = TG + "action"
TG_ARGUMENTS = TG + "arguments"
TG_OBSERVATION = TG + "observation"
TG_SUBAGENT_GOAL = TG + "subagentGoal"
TG_PLAN_STEP = TG + "planStep"
TG_TOOL_CANDIDATE = TG + "toolCandidate"
TG_TERMINATION_REASON = TG + "terminationReason"
TG_STEP_NUMBER = TG + "stepNumber"
TG_PATTERN = TG + "pattern"
TG_TASK_TYPE = TG + "taskType"
TG_LLM_DURATION_MS = TG + "llmDurationMs"
TG_TOOL_DURATION_MS = TG + "toolDurationMs"
TG_TOOL_ERROR = TG + "toolError"

# Our own.

#: Namespace of everything that Whence adds.
WH = "urn:whence:ns#"

#: Exploration to each candidate; the candidate's facts follow.
WH_CANDIDATE = WH + "candidate"
WH_CHUNK = WH + "chunk"
WH_DOCUMENT = WH + "document"
WH_RANK = WH + "rank"
WH_SCORE = WH + "score"
WH_DENSE_SCORE = WH + "denseScore"
WH_SPARSE_SCORE = WH + "sparseScore"
#: What links to other passages added to the score.
WH_GRAPH_SCORE = WH + "graphScore"
#: What was added to the score because the candidate goes by the very name that was asked for.
WH_NAME_SCORE = WH + "nameScore"
#: The concept, or the question itself, whose search returned the candidate.
WH_FOUND_BY = WH + "foundBy"
WH_DIGEST = WH + "digest"
WH_RERANK_RANK = WH + "rerankRank"
WH_RERANK_SCORE = WH + "rerankScore"
#: Candidate to the IRI of the reason code for which it was dropped.
WH_REASON = WH + "reason"

#: Steps from a candidate to the nearest seed of the walk that reached it, 0 for a seed.
WH_DEPTH = WH + "depth"
#: Candidate to the chunk from which the walk came.
WH_PARENT = WH + "parent"
#: Exploration to each edge that was walked; its ends and its relation follow.
WH_EDGE = WH + "edge"
WH_FROM = WH + "from"
WH_TO = WH + "to"
WH_RELATION = WH + "relation"

WH_STARTED_AT = WH + "startedAt"
WH_ENDED_AT = WH + "endedAt"
WH_DURATION_MS = WH + "durationMs"
#: A setting of the run, e.g. `wh:setting_doc_limit`.
WH_SETTING_PREFIX = WH + "setting_"
#: All concepts in order, as a JSON array; `tg:concept` has no order.
WH_CONCEPT_ORDER = WH + "conceptOrder"

WH_DEGRADATION = WH + "degradation"
WH_DEGRADATION_TYPE = WH + "Degradation"
WH_STAGE = WH + "stage"
WH_CODE = WH + "code"
WH_MESSAGE = WH + "message"
WH_HINT = WH + "hint"

WH_CITATION = WH + "citation"
WH_CITATION_TYPE = WH + "Citation"
WH_MARKER = WH + "marker"
WH_QUOTE = WH + "quote"
WH_FOUND = WH + "found"
WH_ANSWER_DIGEST = WH + "answerDigest"

# Named graphs.

#: Facts.
GRAPH_DEFAULT = ""
#: Where facts and texts were extracted from.
GRAPH_SOURCE = "urn:graph:source"
#: What happened when a question was asked.
GRAPH_RETRIEVAL = "urn:graph:retrieval"
