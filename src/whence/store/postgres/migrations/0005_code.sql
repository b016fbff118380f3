-- Snapshots of code: who imported what, which snapshots and sets can be read, and the graph of each.

-- The texts of a snapshot are documents of a collection of its own, one node a document of one chunk, so that
-- ranking, rights and texts are those of every collection. Such a collection is internal: it is not listed, and
-- only an import writes it. A snapshot that is imported anew gets another one, and changes over in one step.
ALTER TABLE collection ADD COLUMN internal boolean NOT NULL DEFAULT false;

-- Every run of an import, the failed ones too.
CREATE TABLE code_import (
    -- Also the key of the lock that the running process holds: who can take it knows that the process has ended.
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    import_id text COLLATE "C" NOT NULL UNIQUE,
    snapshot_id text COLLATE "C" NOT NULL,
    repo text NOT NULL,
    branch text NOT NULL,
    head_sha text NOT NULL,
    tag text NOT NULL,
    status text NOT NULL CHECK (status IN ('running', 'completed', 'failed')),
    -- What it writes into; NULL once that is published or gone.
    collection_id int REFERENCES collection ON DELETE SET NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz,
    error text NOT NULL DEFAULT '',
    -- The account of the bundle, `json` so that it comes back as it was written.
    report json
);

CREATE INDEX code_import_running ON code_import (id) WHERE status = 'running';

-- What can be read: a row here is a published snapshot.
CREATE TABLE code_snapshot (
    snapshot_id text COLLATE "C" PRIMARY KEY,
    repo text COLLATE "C" NOT NULL,
    branch text NOT NULL,
    head_sha text COLLATE "C" NOT NULL,
    generated_at text NOT NULL,
    -- Where its nodes, texts and edges are.
    collection_id int NOT NULL UNIQUE REFERENCES collection,
    -- SHA-256 over nodes and edges: equal content needs no second import.
    digest text NOT NULL,
    nodes_cs int NOT NULL,
    nodes_sql int NOT NULL,
    edges_cs int NOT NULL,
    edges_sql int NOT NULL,
    active boolean NOT NULL DEFAULT true,
    published_at timestamptz NOT NULL,
    -- Greater is newer, also among those that were published in one transaction.
    published bigint GENERATED ALWAYS AS IDENTITY
);

CREATE INDEX code_snapshot_head ON code_snapshot (head_sha);

-- Other names of a snapshot: its branch, and the tags it was imported with.
CREATE TABLE code_ref (
    ref text COLLATE "C" NOT NULL,
    snapshot_id text COLLATE "C" NOT NULL REFERENCES code_snapshot ON DELETE CASCADE,
    PRIMARY KEY (ref, snapshot_id)
);

CREATE TABLE code_set (
    name text COLLATE "C" PRIMARY KEY,
    repo text NOT NULL,
    active boolean NOT NULL DEFAULT true,
    updated_at timestamptz NOT NULL
);

-- Pairs of a reference and the snapshot it stood for, in the order they were given: the first is primary.
CREATE TABLE code_set_member (
    set_name text COLLATE "C" NOT NULL REFERENCES code_set ON DELETE CASCADE,
    place int NOT NULL,
    ref text NOT NULL,
    snapshot_id text COLLATE "C" NOT NULL REFERENCES code_snapshot ON DELETE CASCADE,
    PRIMARY KEY (set_name, place)
);

-- Names of relations, as stored (`cs_dep`, `sql_ReadsFrom`). Rows are never changed.
CREATE TABLE code_relation (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);

-- Nodes by number. Numbers follow the order of canonical ids, from 0, so a walk orders by number where the
-- answer is ordered by id. No foreign key on `collection`, which would look it up for every row: the trigger
-- below does its work.
CREATE TABLE code_node (
    collection_id int NOT NULL,
    node int NOT NULL,
    -- Its text.
    ord int NOT NULL UNIQUE REFERENCES chunk ON DELETE CASCADE,
    class_id int NOT NULL,
    -- Begins with `SQL:` exactly when the node is an SQL object.
    local_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (collection_id, node) INCLUDE (class_id),
    UNIQUE (collection_id, local_id)
);

-- Edges in both directions from a node, each index holding all there is to know.
CREATE TABLE code_edge (
    collection_id int NOT NULL,
    from_node int NOT NULL,
    to_node int NOT NULL,
    relation int NOT NULL,
    PRIMARY KEY (collection_id, from_node, relation, to_node)
);

CREATE INDEX code_edge_back ON code_edge (collection_id, to_node, relation, from_node);

CREATE FUNCTION drop_code() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.internal THEN
        DELETE FROM whence.code_edge WHERE collection_id = OLD.id;
        DELETE FROM whence.code_node WHERE collection_id = OLD.id;
    END IF;
    RETURN OLD;
END
$$;

CREATE TRIGGER collection_dropped BEFORE DELETE ON collection
    FOR EACH ROW EXECUTE FUNCTION drop_code();
