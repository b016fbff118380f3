-- The words of chunks as they are written, to correct misspelt words of queries: how many chunks of each class of
-- rights have a word. An identifier counts by its parts.

CREATE TABLE word (
    collection_id int NOT NULL REFERENCES collection ON DELETE CASCADE,
    class_id int NOT NULL,
    word text COLLATE "C" NOT NULL,
    -- Its letters as a set of bits: words that are few edits apart differ in few of them.
    letters int NOT NULL,
    -- Not in an index, so that counting does not touch one.
    chunks int NOT NULL,
    PRIMARY KEY (collection_id, class_id, word)
) WITH (fillfactor = 80);
