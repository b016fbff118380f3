-- What scores depend on beside the words is counted in each class of rights, so that a reader's are those of the
-- chunks they may see: that a hidden chunk has a word changes no score.

CREATE TABLE lexicon_class (
    collection_id int NOT NULL REFERENCES collection ON DELETE CASCADE,
    class_id int NOT NULL,
    chunks bigint NOT NULL,
    PRIMARY KEY (collection_id, class_id)
);

INSERT INTO lexicon_class
SELECT t.collection_id, c.class_id, count(*)
FROM chunk_terms t JOIN chunk c ON c.ord = t.ord GROUP BY t.collection_id, c.class_id;

-- Of the postings of a segment, those whose chunks are gone or have another slot now. The runs still hold them, so
-- how many chunks of a class have a term is what the runs hold less these.
CREATE TABLE posting_dead (
    segment int NOT NULL,
    term int NOT NULL,
    class_id int NOT NULL,
    chunks int NOT NULL,
    PRIMARY KEY (segment, term, class_id)
);

CREATE OR REPLACE FUNCTION drop_postings() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM whence.posting WHERE segment = OLD.id;
    DELETE FROM whence.posting_dead WHERE segment = OLD.id;
    RETURN NULL;
END
$$;

-- Whose postings have dead among them is indexed anew, at the next write or search.
UPDATE lexicon SET analyzer = ''
WHERE collection_id IN (SELECT s.collection_id FROM segment s WHERE s.dead > 0);
