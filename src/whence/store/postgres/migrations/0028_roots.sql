-- Where documents come from: roots, and the state of every file below them. Both go by the name of the collection,
-- which need not exist while no file could be read.

CREATE TABLE source_root (
    collection text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    -- Absolute; empty for uploads.
    path text NOT NULL,
    PRIMARY KEY (collection, name)
);

CREATE TABLE source_file (
    collection text COLLATE "C" NOT NULL,
    root text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    -- r read, s skipped, f failed, g gone
    state "char" NOT NULL CHECK (state IN ('r', 's', 'f', 'g')),
    reason text NOT NULL,
    -- Empty for a file whose documents have ids of their own.
    document_id text COLLATE "C" NOT NULL,
    class_id int NOT NULL REFERENCES sec_class,
    -- Of the bytes that were read; -1 and empty when none were.
    size bigint NOT NULL,
    modified bigint NOT NULL,
    digest text NOT NULL,
    tried_at timestamptz NOT NULL,
    PRIMARY KEY (collection, root, path)
);

CREATE INDEX source_file_document ON source_file (collection, document_id) WHERE document_id <> '';
CREATE INDEX source_file_unread ON source_file (collection, path) WHERE state <> 'r';

-- Empty for documents of former versions, until their file is found again.
ALTER TABLE document ADD COLUMN root text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE former_document ADD COLUMN root text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE document ADD COLUMN date text NOT NULL DEFAULT '';
ALTER TABLE document ADD COLUMN encoding text NOT NULL DEFAULT '';
ALTER TABLE document ADD COLUMN left_out jsonb NOT NULL DEFAULT '{}';
