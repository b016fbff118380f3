-- Words of documents are stored before their vectors, and a collection may have vectors of a second encoder.

-- Number of the vectors that searches use. Even ones are in `chunk_vec`, odd ones in `chunk_vec_odd`.
ALTER TABLE collection ADD COLUMN vector_set int NOT NULL DEFAULT 0;

CREATE TABLE chunk_vec_odd (
    ord int PRIMARY KEY REFERENCES chunk ON DELETE CASCADE,
    collection_id int NOT NULL,
    class_id int NOT NULL,
    e vector NOT NULL
) WITH (toast_tuple_target = 8160);

ALTER TABLE chunk_vec_odd ALTER COLUMN e SET STORAGE EXTERNAL;

CREATE INDEX chunk_vec_odd_visible ON chunk_vec_odd (collection_id, class_id);

-- The vectors beside those that searches use: being made, or the former ones.
CREATE TABLE vector_set (
    collection_id int PRIMARY KEY REFERENCES collection ON DELETE CASCADE,
    number int NOT NULL,
    model_name text NOT NULL,
    model_revision text NOT NULL,
    model_precision text NOT NULL,
    dimension int NOT NULL CHECK (dimension BETWEEN 1 AND 16000),
    former boolean NOT NULL
);

-- Chunks without a vector of a set.
CREATE TABLE vector_pending (
    collection_id int NOT NULL,
    number int NOT NULL,
    ord int NOT NULL REFERENCES chunk ON DELETE CASCADE,
    -- Whether token codes are wanted, too.
    token_codes boolean NOT NULL,
    -- Why the encoder did not take the text; it is not tried again.
    refused text NOT NULL DEFAULT '',
    PRIMARY KEY (collection_id, number, ord)
);

CREATE INDEX vector_pending_chunk ON vector_pending (ord);

-- Equal texts have equal vectors.
CREATE INDEX chunk_embedded ON chunk (collection_id, hashtextextended(coalesce(nullif(embed_text, ''), content), 0));

-- Vectors of a former document are of this set; those of chunks that had none are null.
ALTER TABLE former_document ADD COLUMN vector_set int NOT NULL DEFAULT 0;
ALTER TABLE former_chunk ALTER COLUMN e DROP NOT NULL;
