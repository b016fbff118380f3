-- The words of chunks: who has which how often, and blocks of postings to rank by.

-- What scores depend on beside the words. A collection without a row, or with one of another analyzer, gets its
-- words counted anew from the texts before it is written to or searched.
CREATE TABLE lexicon (
    collection_id int PRIMARY KEY REFERENCES collection ON DELETE CASCADE,
    analyzer text NOT NULL,
    -- Documents are stemmed in the first, queries in all.
    languages text[] NOT NULL,
    chunks bigint NOT NULL,
    total_length bigint NOT NULL,
    -- The mean length that all impacts of the collection were computed with; the true mean is kept close to it.
    mean_length float8 NOT NULL,
    -- Slots are handed out in order; those below `posted` are in segments.
    next_slot int NOT NULL,
    posted int NOT NULL
);

CREATE TABLE term (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    collection_id int NOT NULL REFERENCES collection ON DELETE CASCADE,
    term text COLLATE "C" NOT NULL,
    -- Chunks with the term. Not in an index, so that counting does not touch one.
    df int NOT NULL,
    UNIQUE (collection_id, term)
) WITH (fillfactor = 80);

-- Forward index. A chunk has one slot; its postings name the slot, not the chunk. New tags mean a new slot:
-- postings of slots that are gone mean nothing and wait for the next merge.
CREATE TABLE chunk_terms (
    collection_id int NOT NULL,
    slot int NOT NULL,
    ord int NOT NULL UNIQUE REFERENCES chunk ON DELETE CASCADE,
    -- Occurrences of strong terms.
    length int NOT NULL,
    -- Ids of terms, ascending, and how often each occurs: int32, little endian.
    terms bytea NOT NULL,
    counts bytea NOT NULL,
    PRIMARY KEY (collection_id, slot)
);

-- Postings of a range of slots; ranges of a collection do not overlap.
CREATE TABLE segment (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    collection_id int NOT NULL REFERENCES collection ON DELETE CASCADE,
    first_slot int NOT NULL,
    last_slot int NOT NULL,
    chunks int NOT NULL,
    -- Chunks of it that were removed or got another slot since.
    dead int NOT NULL DEFAULT 0,
    UNIQUE (collection_id, first_slot)
);

-- Led by the segment: a new one is appended at the end of the index, a merged one goes as a range. The class of
-- rights stands beside each posting, so that hidden ones are left out before anything is added up. Arrays out
-- of line are not compressed: they are read whole for every query.
CREATE TABLE posting (
    segment int NOT NULL,
    term int NOT NULL,
    block int NOT NULL,
    -- Greatest of `impacts`, for rankings that skip what cannot reach the top.
    max_impact float4 NOT NULL,
    slots int[] NOT NULL,
    impacts float4[] NOT NULL,
    classes int[] NOT NULL,
    PRIMARY KEY (segment, term, block)
);

ALTER TABLE posting
    ALTER COLUMN slots SET STORAGE EXTERNAL,
    ALTER COLUMN impacts SET STORAGE EXTERNAL,
    ALTER COLUMN classes SET STORAGE EXTERNAL;

-- In place of a foreign key, which would look up the segment for each of the thousands of rows of a new one.
CREATE FUNCTION drop_postings() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM whence.posting WHERE segment = OLD.id;
    RETURN NULL;
END
$$;

CREATE TRIGGER segment_dropped AFTER DELETE ON segment
    FOR EACH ROW EXECUTE FUNCTION drop_postings();
