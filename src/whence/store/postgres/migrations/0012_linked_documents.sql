-- How many documents the passages of a count belong to: a title names a passage where a document is hardly more.
ALTER TABLE passage_links ADD COLUMN documents int NOT NULL DEFAULT 0;

UPDATE passage_links l
SET documents = (SELECT count(*) FROM document d WHERE d.collection_id = l.collection_id);
