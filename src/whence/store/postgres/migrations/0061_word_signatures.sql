-- Signature of the words of a chunk, by which a search tells its candidates apart. Empty for a chunk that was stored
-- before: a search makes it of the text. A new row is 68 bytes longer.

ALTER TABLE chunk ADD COLUMN word_signature bytea NOT NULL DEFAULT '';
