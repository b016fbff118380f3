-- What stands above the text in which a chunk begins: caption and header of its table, terms of its definition.

ALTER TABLE chunk ADD COLUMN lead text NOT NULL DEFAULT '';
ALTER TABLE former_chunk ADD COLUMN lead text NOT NULL DEFAULT '';
