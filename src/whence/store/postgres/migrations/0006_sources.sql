-- What a document was read from, and where in it a chunk stands.

-- Fingerprint of the bytes a document was read from and of all that shapes how they are read, cut and tagged: a
-- source with the same one is not even parsed again. Empty when it is not known, which costs a comparison of the
-- documents and nothing else.
ALTER TABLE document ADD COLUMN source_digest text NOT NULL DEFAULT '';

-- Page a chunk begins on, from 1; 0 for documents without pages.
ALTER TABLE chunk ADD COLUMN page int NOT NULL DEFAULT 0 CHECK (page >= 0);
