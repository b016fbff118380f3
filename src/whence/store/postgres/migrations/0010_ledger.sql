-- What groups have begun and done, so that a message that is delivered again has one effect.

CREATE TABLE ledger (
    -- "group" is a word of SQL's own.
    member_group text COLLATE "C" NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    done boolean NOT NULL DEFAULT false,
    -- Who claimed it: a ledger gives back and keeps alive only what is its own.
    owner text NOT NULL,
    -- Claims that ran out: nobody said how they ended.
    deaths int NOT NULL DEFAULT 0,
    -- Digest of the result, once it is done.
    digest text NOT NULL DEFAULT '',
    -- By the clock of this server, the only one that all processes share.
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (member_group, message_id)
) WITH (fillfactor = 80);

-- Expired rows are found by it.
CREATE INDEX ledger_expiry ON ledger (expires_at);

-- What a message did to a document, written in the transaction that did it: delivered again, the message tells
-- the same of that document as the first time.
CREATE TABLE effect (
    message_id text COLLATE "C" NOT NULL,
    collection_id int NOT NULL REFERENCES collection ON DELETE CASCADE,
    document_id text COLLATE "C" NOT NULL,
    -- added, updated, or tagged for new tags alone.
    outcome text NOT NULL CHECK (outcome IN ('added', 'updated', 'tagged')),
    written_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (collection_id, message_id, document_id)
);

CREATE INDEX effect_age ON effect (written_at);
