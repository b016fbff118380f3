-- Versions of a collection: each transaction that changes its documents makes the next one, and the log says what it
-- changed. Former versions of documents are kept for a time, so that a question can be asked as of a moment.

ALTER TABLE collection ADD COLUMN version bigint NOT NULL DEFAULT 0;
-- Moment from which on the log is whole: that of its making, or of this migration.
ALTER TABLE collection ADD COLUMN logged_since timestamptz NOT NULL DEFAULT now();

CREATE TABLE document_change (
    collection_id int NOT NULL REFERENCES collection ON DELETE CASCADE,
    -- Empty for an erased document, whose entries are replaced by one, and for a change of the collection itself.
    document_id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    -- a added, c changed, t tagged, r removed, e erased, s settings of the collection
    kind "char" NOT NULL CHECK (kind IN ('a', 'c', 't', 'r', 'e', 's')),
    -- Tags after the change; the last ones of a document that is gone. No tags for settings.
    class_id int REFERENCES sec_class,
    -- Hash of the digest of the document, to tell a change that was undone.
    content bigint NOT NULL,
    -- Of an erased document, the version that it came with.
    first_version bigint,
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (collection_id, document_id, version)
);

CREATE INDEX document_change_version ON document_change (collection_id, version);

-- Documents of before this migration came when they were stored last.
INSERT INTO document_change
SELECT d.collection_id, d.document_id, dense_rank() OVER (PARTITION BY d.collection_id ORDER BY d.stored_at), 'a',
    d.class_id, hashtextextended(d.digest, 0), NULL, d.stored_at
FROM document d JOIN collection c ON c.id = d.collection_id WHERE NOT c.internal;

UPDATE collection c SET version = g.version
FROM (SELECT collection_id, max(version) AS version FROM document_change GROUP BY collection_id) g
WHERE c.id = g.collection_id;

-- Versions of documents that were replaced or removed. Their tags are those of today, by the log.
CREATE TABLE former_document (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    collection_id int NOT NULL REFERENCES collection ON DELETE CASCADE,
    document_id text COLLATE "C" NOT NULL,
    -- The first version of the collection that has it, and the first that has it no more.
    valid_from bigint NOT NULL,
    valid_to bigint NOT NULL,
    replaced_at timestamptz NOT NULL,
    digest text NOT NULL,
    title text NOT NULL,
    source_file text NOT NULL,
    source_url text NOT NULL,
    metadata jsonb NOT NULL,
    gaps text[] NOT NULL,
    places json NOT NULL
);

CREATE INDEX former_document_version ON former_document (collection_id, document_id, valid_to);
CREATE INDEX former_document_age ON former_document (replaced_at);

CREATE TABLE former_chunk (
    document bigint NOT NULL REFERENCES former_document ON DELETE CASCADE,
    index int NOT NULL,
    content text NOT NULL,
    heading text NOT NULL,
    section_path text NOT NULL,
    span_start int NOT NULL,
    span_end int NOT NULL,
    embed_text text NOT NULL,
    page int NOT NULL,
    e vector NOT NULL,
    codes bytea STORAGE EXTERNAL,
    PRIMARY KEY (document, index)
);

ALTER TABLE former_chunk ALTER COLUMN e SET STORAGE EXTERNAL;
