-- Names of documents and sections, and the passages that name them: the links of the passage graph.

-- One row for each title or heading in use; it goes when no passage bears it any more.
CREATE TABLE passage_name (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    collection_id int NOT NULL REFERENCES collection ON DELETE CASCADE,
    -- The analyzer's terms in order, joined by spaces.
    terms text COLLATE "C" NOT NULL,
    -- One of them: a text without it does not hold the name.
    anchor text COLLATE "C" NOT NULL,
    UNIQUE (collection_id, terms)
);

CREATE INDEX passage_name_anchor ON passage_name (collection_id, anchor);

-- The first passage of a document bears its title, the first under a heading bears the heading.
CREATE TABLE passage_bearer (
    name int NOT NULL REFERENCES passage_name ON DELETE CASCADE,
    ord int NOT NULL REFERENCES chunk ON DELETE CASCADE,
    PRIMARY KEY (name, ord)
);

CREATE INDEX passage_bearer_ord ON passage_bearer (ord);

-- Every passage whose text holds a name, those of the document that bears it included: which are links is decided
-- when they are read, from what the reader may see.
CREATE TABLE passage_mention (
    name int NOT NULL REFERENCES passage_name ON DELETE CASCADE,
    ord int NOT NULL REFERENCES chunk ON DELETE CASCADE,
    PRIMARY KEY (name, ord)
);

CREATE INDEX passage_mention_ord ON passage_mention (ord);

-- How the links of a collection stand. Without a row, or with one of another version, they are found anew before
-- the collection is written to.
CREATE TABLE passage_links (
    collection_id int PRIMARY KEY REFERENCES collection ON DELETE CASCADE,
    version text NOT NULL,
    -- Passages at the last count, and how many of them had a link.
    counted int NOT NULL,
    linked int NOT NULL
);
