-- When the collection got its last version; the log may forget that entry. Null before the first.

ALTER TABLE collection ADD COLUMN changed_at timestamptz;

UPDATE collection c SET changed_at =
    (SELECT max(x.changed_at) FROM document_change x WHERE x.collection_id = c.id);
