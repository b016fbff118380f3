-- Words like a misspelt one are found by their sets of letters: those that differ in two letters are 466 sets.
CREATE INDEX word_letters ON word (collection_id, letters);
