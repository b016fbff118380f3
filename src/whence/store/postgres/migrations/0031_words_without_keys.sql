-- A write adds thousands of words, and a foreign key looks up the collection for each of them, though the write has
-- locked it: a quarter of what the server did for a write. A trigger removes them with their collection.
ALTER TABLE word DROP CONSTRAINT word_collection_id_fkey;
ALTER TABLE term DROP CONSTRAINT term_collection_id_fkey;

CREATE FUNCTION drop_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM whence.word WHERE collection_id = OLD.id;
    DELETE FROM whence.term WHERE collection_id = OLD.id;
    RETURN NULL;
END
$$;

CREATE TRIGGER collection_words_dropped AFTER DELETE ON collection
    FOR EACH ROW EXECUTE FUNCTION drop_words();
