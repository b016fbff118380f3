-- Former names of collections: a question that began before its collection was renamed is recorded under the new name.

CREATE TABLE collection_former_name (
    name text COLLATE "C" PRIMARY KEY,
    collection_id int NOT NULL REFERENCES collection ON DELETE CASCADE
);
CREATE INDEX collection_former_name_of ON collection_former_name (collection_id);
