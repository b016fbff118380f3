"""The core of the made-up enterprise: its members, SQL objects, dependencies and rights, as tables."""

from __future__ import annotations

import msgspec

__all__ = (
    "CORE_NODES",
    "CORE_NODES_1_1",
    "CORE_OBJECTS",
    "CORE_OBJECTS_1_1",
    "CORE_RIGHTS",
    "NEW_EDGES_1_1",
    "CoreNode",
    "CoreObject",
)


class CoreNode(msgspec.Struct, frozen=True):
    """A C# node of the core, as its table gives it."""

    local_id: str
    file: str
    symbol: str
    """`Class.Member`"""
    depends_on: str
    """Local ids, separated by spaces."""
    remark: str
    body: str = "return Next(input);"


class CoreObject(msgspec.Struct, frozen=True):
    """An SQL object of the core, as its table gives it; its schema is `dbo`."""

    name: str
    kind: str
    text: str
    edges: str = ""
    """Relation and name of each object it leads to, separated by commas."""


CORE_NODES = (
    CoreNode(
        "C0001",
        "App/Program.cs",
        "Program.Main",
        "C0002",
        "Where the application begins: starting point, entry point of the process, hands over to bootstrap.",
        "AppBootstrap.Configure(args);",
    ),
    CoreNode(
        "C0002",
        "App/AppBootstrap.cs",
        "AppBootstrap.Configure",
        "C0003 C0005 C0031",
        "Application bootstrap: wires services, routing and telemetry once the entry point has run.",
        "services.Add<QueryRouter>(); services.Add<SearchFacade>();",
    ),
    CoreNode(
        "C0003",
        "Core/Routing/QueryRouter.cs",
        "QueryRouter.RouteRequest",
        "C0004 C0005",
        "Query routing: to route request after request, picks the retrieval strategy for each by intent.",
        "return Select(QueryParser.Parse(question));",
    ),
    CoreNode(
        "C0004",
        "Core/Routing/QueryParser.cs",
        "QueryParser.Parse",
        "",
        "Splits a raw query into words, filters and hints for routing and strategy selection.",
    ),
    CoreNode(
        "C0005",
        "Core/Search/SearchFacade.cs",
        "SearchFacade.Search",
        "C0006 C0011 C0016 C0019",
        "search facade: filter by rights, then bm25, semantic and hybrid retrieval",
    ),
    CoreNode(
        "C0006",
        "Core/Retrieval/Semantic/SemanticSearcher.cs",
        "SemanticSearcher.Search",
        "C0007 C0008 C0009 C0010",
        "semantic search: a query vector meets its nearest neighbors",
    ),
    CoreNode(
        "C0007",
        "Core/Retrieval/Semantic/EmbeddingModel.cs",
        "EmbeddingModel.Encode",
        "",
        "turns text into a vector of length one for semantic search",
    ),
    CoreNode(
        "C0008",
        "Core/Retrieval/Semantic/NearestNeighbors.cs",
        "NearestNeighbors.FindTopK",
        "",
        "nearest neighbors of a vector, the closest k by cosine",
    ),
    CoreNode(
        "C0009",
        "Core/Retrieval/Semantic/CosineSimilarity.cs",
        "CosineSimilarity.Score",
        "",
        "cosine of the angle between two vectors",
    ),
    CoreNode(
        "C0010",
        "Core/Retrieval/Semantic/EmbeddingQueryBuilder.cs",
        "EmbeddingQueryBuilder.Build",
        "",
        "makes the vector query out of words and limits",
    ),
    CoreNode(
        "C0011",
        "Core/Retrieval/Bm25/Bm25Searcher.cs",
        "Bm25Searcher.Search",
        "C0012 C0013 C0014 C0015",
        "lexical bm25 search, exact tokens from ExtractKeywords weigh more",
    ),
    CoreNode(
        "C0012",
        "Core/Retrieval/Bm25/Bm25Scorer.cs",
        "Bm25Scorer.Score",
        "",
        "bm25 score of a document, with weights of fields",
    ),
    CoreNode(
        "C0013",
        "Core/Retrieval/Bm25/KeywordExtractor.cs",
        "KeywordExtractor.ExtractKeywords",
        "",
        "picks the hard keywords out of a question",
    ),
    CoreNode(
        "C0014",
        "Core/Retrieval/Bm25/TfTokenizer.cs",
        "TfTokenizer.Tokenize",
        "",
        "Cuts text into tokens and counts how often each occurs.",
    ),
    CoreNode(
        "C0015",
        "Core/Retrieval/Bm25/StopwordList.cs",
        "StopwordList.Contains",
        "",
        "Knows the words too common to tell documents apart.",
    ),
    CoreNode(
        "C0016",
        "Core/Retrieval/Hybrid/HybridRanker.cs",
        "HybridRanker.Rank",
        "C0017 C0018",
        "hybrid ranking: this component combines bm25 and semantic search hits into one list",
    ),
    CoreNode(
        "C0017",
        "Core/Retrieval/Hybrid/ReciprocalRankFusion.cs",
        "ReciprocalRankFusion.Fuse",
        "",
        "Adds up reciprocal ranks, so a hit of both the bm25 and the semantic list rises.",
    ),
    CoreNode(
        "C0018",
        "Core/Retrieval/Hybrid/KeywordRerankScorer.cs",
        "KeywordRerankScorer.Rerank",
        "",
        "To rerank semantic hits, counts the keywords that each one holds.",
    ),
    CoreNode(
        "C0019",
        "Core/Graph/DependencyTreeExpander.cs",
        "DependencyTreeExpander.Expand",
        "C0020",
        "DependencyTreeExpander grows a tree of dependencies from the nodes that were found.",
        "return GraphProviderFacade.ExpandTree(seeds, depth);",
    ),
    CoreNode(
        "C0020",
        "Core/Graph/GraphProviderFacade.cs",
        "GraphProviderFacade.ExpandTree",
        "",
        "Front of the graph provider; DependencyTreeExpander is its caller.",
    ),
    CoreNode(
        "C0021",
        "Domain/Security/TokenValidator.cs",
        "TokenValidator.ValidateToken",
        "C0023",
        "token validation for auth: decodes the jwt, then signature verification, issuer and expiry.",
        "return VerifySignature(jwt) && !Expired(jwt);",
    ),
    CoreNode(
        "C0022",
        "Core/Security/AclFilter.cs",
        "AclFilter.Apply",
        "C0023",
        "acl filter: drops hits without permissions before anything is put in rank order.",
        "return hits.Where(hit => AclPolicy.CanRead(user, hit));",
    ),
    CoreNode(
        "C0023",
        "Core/Security/AclPolicy.cs",
        "AclPolicy.CanRead",
        "",
        "acl policy: decides by tags and labels which permissions a user has.",
    ),
    CoreNode(
        "C0024",
        "Domain/Risk/FraudRiskScorer.cs",
        "FraudRiskScorer.ComputeScore",
        "C0021",
        "Estimates fraud, risk score from 0 to 1 is calculated after token validation of the caller.",
        "return TokenValidator.ValidateToken(token) ? Weigh(signals) : 1.0;",
    ),
    CoreNode(
        "C0025",
        "Domain/Shipments/ShipmentService.cs",
        "ShipmentService.SearchByTracking",
        "C0026 C0030",
        "Search for a shipment by its tracking number; calls a stored procedure through SqlExecutor.",
        "return repository.FindByTracking(trackingNumber);",
    ),
    CoreNode(
        "C0026",
        "Domain/Shipments/ShipmentRepository.cs",
        "ShipmentRepository.FindByTracking",
        "C0030",
        "Reads shipment rows that carry a tracking number.",
        'return SqlExecutor.ExecuteStoredProcedure("proc_GetShipmentByTracking");',
    ),
    CoreNode(
        "C0027",
        "Domain/Finance/PaymentService.cs",
        "PaymentService.ProcessPayment",
        "C0024 C0029 C0030",
        "PaymentService takes a payment once its fraud check is passed, then executes a stored procedure.",
        'SqlExecutor.ExecuteStoredProcedure("proc_ProcessPayment");',
    ),
    CoreNode(
        "C0028",
        "Domain/Finance/InvoiceGenerator.cs",
        "InvoiceGenerator.GenerateInvoice",
        "C0029 C0030",
        "Writes an invoice for each payment, with a vat summary at its foot.",
        'SqlExecutor.ExecuteStoredProcedure("proc_GenerateInvoice");',
    ),
    CoreNode(
        "C0029",
        "Domain/Finance/VatCalculator.cs",
        "VatCalculator.CalculateVat",
        "",
        "The vat of an amount by country and rate, for invoices and payments.",
        "return Math.Round(amount * rate, 2);",
    ),
    CoreNode(
        "C0030",
        "Infrastructure/Db/SqlExecutor.cs",
        "SqlExecutor.ExecuteStoredProcedure",
        "",
        "SqlExecutor: who calls a stored procedure does it here; execute, and retry when the link breaks.",
        "return Retry(() => command.Execute(name));",
    ),
    CoreNode(
        "C0031",
        "Infrastructure/Db/DbConnectionFactory.cs",
        "DbConnectionFactory.Create",
        "",
        "Opens connections to the database from a pool.",
    ),
)
#: New in release 1.1.
CORE_NODES_1_1 = (
    CoreNode(
        "C0202",
        "Core/Routing/QueryIntentClassifier.cs",
        "QueryIntentClassifier.Classify",
        "",
        "Tells the intent of a question: looking something up, tracing calls or comparing.",
    ),
    CoreNode(
        "C0203",
        "Core/Security/ComplianceGateway.cs",
        "ComplianceGateway.ValidateRequest",
        "",
        "Checks the labels of a demand against what its sender may handle.",
    ),
)
#: What nodes of release 1.0 depend on besides, in 1.1.
NEW_EDGES_1_1 = {"C0003": "C0202", "C0016": "C0202", "C0021": "C0203", "C0022": "C0203"}

CORE_OBJECTS = (
    CoreObject(
        "table_Shipments",
        "Table",
        "-- shipment headers\nCREATE TABLE dbo.table_Shipments (ShipmentId int, TrackingNumber varchar(40));",
    ),
    CoreObject(
        "table_Payments",
        "Table",
        "-- payment rows and their status\n"
        "CREATE TABLE dbo.table_Payments (PaymentId int, Amount money, Status int);",
    ),
    CoreObject(
        "table_Invoices",
        "Table",
        "-- invoice rows with vat\nCREATE TABLE dbo.table_Invoices (InvoiceId int, Vat money);",
    ),
    CoreObject(
        "table_Tokens",
        "Table",
        "-- signatures and expiry\nCREATE TABLE dbo.table_Tokens (TokenId int, Signature varbinary(64));",
    ),
    CoreObject(
        "table_AclRecords",
        "Table",
        "-- acl tags of each document\nCREATE TABLE dbo.table_AclRecords (CanonicalId varchar(400), Tag varchar(60));",
    ),
    CoreObject(
        "view_Shipments",
        "View",
        "-- fields by which a shipment is found, tracking number among them\n"
        "CREATE VIEW dbo.view_Shipments AS SELECT ShipmentId, TrackingNumber FROM dbo.table_Shipments;",
    ),
    CoreObject(
        "view_FinanceOverview",
        "View",
        "-- payments beside invoices\nCREATE VIEW dbo.view_FinanceOverview AS SELECT p.Amount, i.Vat\n"
        "FROM dbo.table_Payments p JOIN dbo.table_Invoices i ON i.InvoiceId = p.PaymentId;",
        "ReadsFrom table_Payments, ReadsFrom table_Invoices",
    ),
    CoreObject(
        "fn_NormalizeQuery",
        "Function",
        "-- lower case for typed words\nCREATE FUNCTION dbo.fn_NormalizeQuery (@text nvarchar(400))\n"
        "RETURNS nvarchar(400) AS BEGIN RETURN LOWER(@text); END;",
    ),
    CoreObject(
        "proc_SearchShipments_BM25",
        "Procedure",
        "-- lexical shipment lookup\nCREATE PROCEDURE dbo.proc_SearchShipments_BM25 @words nvarchar(400) AS\n"
        "SELECT ShipmentId FROM dbo.view_Shipments WHERE CONTAINS(TrackingNumber, @words);",
        "ReadsFrom view_Shipments",
    ),
    CoreObject(
        "proc_SearchShipments_Semantic",
        "Procedure",
        "-- shipment lookup by meaning\nCREATE PROCEDURE dbo.proc_SearchShipments_Semantic @vector varbinary(max)\n"
        "AS SELECT TOP 20 ShipmentId FROM dbo.view_Shipments ORDER BY dbo.Distance(@vector);",
        "ReadsFrom view_Shipments",
    ),
    CoreObject(
        "proc_SearchShipments_Hybrid",
        "Procedure",
        "-- hybrid search: bm25 and semantic hits of shipments, rerank by both\n"
        "CREATE PROCEDURE dbo.proc_SearchShipments_Hybrid @text nvarchar(400) AS\n"
        "EXEC dbo.proc_SearchShipments_BM25 @text; EXEC dbo.proc_SearchShipments_Semantic @text;",
        "Executes proc_SearchShipments_BM25, Executes proc_SearchShipments_Semantic",
    ),
    CoreObject(
        "proc_GetShipmentByTracking",
        "Procedure",
        "-- one shipment by tracking number\nCREATE PROCEDURE dbo.proc_GetShipmentByTracking @number varchar(40) AS\n"
        "SELECT * FROM dbo.view_Shipments WHERE TrackingNumber = @number;",
        "ReadsFrom view_Shipments",
    ),
    CoreObject(
        "proc_ProcessPayment",
        "Procedure",
        "-- called by PaymentService; no payment without a fraud check\n"
        "CREATE PROCEDURE dbo.proc_ProcessPayment @id int, @token int AS\n"
        "EXEC dbo.proc_ValidateToken @token; EXEC dbo.proc_ComputeFraudRisk @id;\n"
        "UPDATE dbo.table_Payments SET Status = 1 WHERE PaymentId = @id;",
        "WritesTo table_Payments, Executes proc_ValidateToken, Executes proc_ComputeFraudRisk",
    ),
    CoreObject(
        "proc_GenerateInvoice",
        "Procedure",
        "-- an invoice once the payment is through\nCREATE PROCEDURE dbo.proc_GenerateInvoice @id int AS\n"
        "EXEC dbo.proc_ProcessPayment @id; INSERT INTO dbo.table_Invoices (InvoiceId) VALUES (@id);",
        "WritesTo table_Invoices, Executes proc_ProcessPayment",
    ),
    CoreObject(
        "proc_ValidateToken",
        "Procedure",
        "-- ValidateToken in the database: signature verification and scope\n"
        "CREATE PROCEDURE dbo.proc_ValidateToken @token int AS\n"
        "SELECT Signature FROM dbo.table_Tokens WHERE TokenId = @token;",
        "ReadsFrom table_Tokens",
    ),
    CoreObject(
        "proc_ComputeFraudRisk",
        "Procedure",
        "-- weighs earlier payments: fraud, risk score between 0 and 1\n"
        "CREATE PROCEDURE dbo.proc_ComputeFraudRisk @id int AS\n"
        "SELECT AVG(Amount) FROM dbo.table_Payments; SELECT COUNT(*) FROM dbo.table_AclRecords;",
        "ReadsFrom table_Payments, ReadsFrom table_AclRecords",
    ),
)
#: New in release 1.1.
CORE_OBJECTS_1_1 = (
    CoreObject(
        "table_SearchAudit",
        "Table",
        "-- who looked for what, and when\nCREATE TABLE dbo.table_SearchAudit (At datetime, Words nvarchar(400));",
    ),
    CoreObject(
        "proc_SearchShipments_VectorFallback",
        "Procedure",
        "-- shipment lookup while no vectors are there\n"
        "CREATE PROCEDURE dbo.proc_SearchShipments_VectorFallback @text nvarchar(400) AS\n"
        "SELECT ShipmentId FROM dbo.view_Shipments; INSERT INTO dbo.table_SearchAudit (Words) VALUES (@text);",
        "ReadsFrom view_Shipments, WritesTo table_SearchAudit",
    ),
)

#: Rights of the core in releases 1.0 and 1.1, as `acl / labels`; what is not here has none.
CORE_RIGHTS = {
    "C0002": ("hr /", "support / secret"),
    "C0003": ("architecture / restricted secret", "architecture /"),
    "C0004": ("/", "/ public restricted"),
    "C0005": ("/", "/ internal"),
    "C0006": ("finance support /", "/"),
    "C0009": ("support /", "/"),
    "C0013": ("hr legal /", "/"),
    "C0014": ("legal /", "ops /"),
    "C0016": ("/ public", "/ restricted"),
    "C0017": ("architecture hr /", "support /"),
    "C0019": ("support / secret", "/"),
    "C0020": ("support /", "finance /"),
    "C0021": ("/ confidential public", "/"),
    "C0022": ("architecture /", "/"),
    "C0023": ("/", "/ restricted secret"),
    "C0024": ("/", "security /"),
    "C0026": ("/", "/ internal secret"),
    "C0027": ("hr integration / public", "ops /"),
    "C0029": ("ops /", "ops / confidential public"),
    "C0030": ("hr security / secret", "/"),
    "C0202": ("/", "ops /"),
    "SQL:dbo.table_Shipments": ("finance support /", "/"),
    "SQL:dbo.table_Payments": ("/", "support /"),
    "SQL:dbo.table_Invoices": ("/", "security /"),
    "SQL:dbo.proc_SearchShipments_Semantic": ("/", "/ confidential"),
    "SQL:dbo.proc_SearchShipments_Hybrid": ("/", "integration ops /"),
    "SQL:dbo.proc_GetShipmentByTracking": ("/ internal", "support / public restricted"),
    "SQL:dbo.proc_GenerateInvoice": ("/ restricted", "support /"),
    "SQL:dbo.proc_ComputeFraudRisk": ("/", "/ internal public"),
    "SQL:dbo.proc_SearchShipments_VectorFallback": ("/", "architecture / secret"),
}
