-- The mean length, too, is that of the chunks that the reader may see: postings hold what it is applied to, how often
-- the chunk has the term and how long it is, and no longer what came of one mean for all.

ALTER TABLE posting RENAME COLUMN impacts TO counts;

ALTER TABLE lexicon_class ADD COLUMN total_length bigint NOT NULL DEFAULT 0;
ALTER TABLE lexicon DROP COLUMN mean_length, DROP COLUMN total_length;

-- All postings are written anew, at the next write or search of each collection.
UPDATE lexicon SET analyzer = '';
