-- Postings as bytes, cut into runs of one term and one class of rights: the server still leaves hidden runs out, and
-- what is left is added up by the reader from whole arrays. Blocks of numbers, a row per term, took 110 bytes a posting
-- and 4 to 27 times as long to rank as an index in memory.

-- Segments are made anew from the words of the texts, at the next write or search of each collection.
DELETE FROM segment;
UPDATE lexicon SET analyzer = '';

-- Slots by place in the segment, int32, big endian; places are in the order of classes, then slots.
ALTER TABLE segment ADD COLUMN slots bytea NOT NULL;
ALTER TABLE segment ALTER COLUMN slots SET STORAGE EXTERNAL;

-- Rows of a segment cover ranges of terms that do not overlap: many rare terms share a row, a frequent one has its
-- own. Bytes out of line are not compressed: they are read whole for every query.
DROP TABLE posting;
CREATE TABLE posting (
    segment int NOT NULL,
    -- Greatest of `terms`.
    last_term int NOT NULL,
    -- Of each run: its term, its class, and the number of postings in this row up to its end.
    terms int[] NOT NULL,
    classes int[] NOT NULL,
    ends int[] NOT NULL,
    -- Of each posting: place in the segment, uint16, and impact, float32; both little endian.
    places bytea NOT NULL,
    impacts bytea NOT NULL,
    PRIMARY KEY (segment, last_term)
);

ALTER TABLE posting
    ALTER COLUMN terms SET STORAGE EXTERNAL,
    ALTER COLUMN classes SET STORAGE EXTERNAL,
    ALTER COLUMN ends SET STORAGE EXTERNAL,
    ALTER COLUMN places SET STORAGE EXTERNAL,
    ALTER COLUMN impacts SET STORAGE EXTERNAL;

