-- How often each word of a title, a heading and a path counts beside once in the text, see `whence.store.boosts`.

ALTER TABLE lexicon ADD COLUMN boosts int[] NOT NULL DEFAULT '{1,1,0}';
