-- What documents state of themselves, to narrow searches by: a row for each value of each key of the metadata, in
-- the form it is compared in. Both stores make that form with the same code, so they agree on every filter.

CREATE TABLE document_fact (
    collection_id int NOT NULL,
    document bigint NOT NULL REFERENCES document ON DELETE CASCADE,
    key text COLLATE "C" NOT NULL,
    kind "char" NOT NULL CHECK (kind IN ('t', 'n', 'f')),
    -- A number in its shortest form; a long text as its start and its digest.
    text text COLLATE "C" NOT NULL,
    -- The value of a number, the seconds since 1970 of a text that is a date.
    number float8
);

CREATE INDEX document_fact_text ON document_fact (collection_id, key, kind, text) INCLUDE (document);
CREATE INDEX document_fact_number ON document_fact (collection_id, key, kind, number) INCLUDE (document)
    WHERE number IS NOT NULL;
CREATE INDEX document_fact_document ON document_fact (document);

-- The code that the facts of a collection were made with; 0 when there are none yet.
ALTER TABLE collection ADD COLUMN facts_version int NOT NULL DEFAULT 0;

-- From visible documents to their chunks without reading either.
CREATE INDEX document_visible ON document (collection_id, class_id) INCLUDE (id);
CREATE INDEX chunk_of_document ON chunk (document) INCLUDE (ord);
