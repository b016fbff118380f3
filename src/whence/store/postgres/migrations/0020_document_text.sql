-- The text of a document is its chunks and what stands between them; places say where its parts stand in the file.
-- Both are part of the row of the document, so that they go with it.

-- White space before each chunk; empty when the spans of the chunks tell it.
ALTER TABLE document ADD COLUMN gaps text[] NOT NULL DEFAULT '{}';

-- Arrays of offset, first line, last line, page and anchor, by offset; `json` keeps the text as it was written.
ALTER TABLE document ADD COLUMN places json NOT NULL DEFAULT '[]';
