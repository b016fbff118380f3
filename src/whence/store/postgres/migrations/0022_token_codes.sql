-- Token vectors of chunks as bits, which the reranker reads in place of texts. A table of its own: searches and texts
-- are read without them. Bits cannot be compressed.
CREATE TABLE chunk_codes (
    ord int PRIMARY KEY REFERENCES chunk ON DELETE CASCADE,
    codes bytea STORAGE EXTERNAL NOT NULL
);
