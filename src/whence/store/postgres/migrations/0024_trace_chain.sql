-- A chain of entries, one for each change of a trace, so that every other change is found.

CREATE TABLE trace_chain (
    number bigint PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('record', 'rewrite', 'erase', 'prune')),
    answer_id text COLLATE "C" NOT NULL,
    -- Commitment to the trace with its salt; empty when it was removed, or had faults before the change.
    digest bytea NOT NULL,
    written_at timestamptz NOT NULL,
    -- Of the fields above and the hash of the entry before.
    hash bytea NOT NULL,
    -- Empty when the recorder had no key.
    signature bytea NOT NULL
);
CREATE INDEX trace_chain_answer ON trace_chain USING hash (answer_id);

ALTER TABLE trace
    -- The number of the entry that recorded the trace; `trace_chain` has what makes it unique.
    ALTER COLUMN number DROP IDENTITY,
    DROP CONSTRAINT trace_pkey,
    -- Without it the digest of a trace says nothing about its words; it goes with the trace.
    ADD COLUMN salt bytea,
    -- The rights that reading takes, as in the record. Traces that earlier versions stored have all three and a salt
    -- as soon as they are in the chain.
    ADD COLUMN acl_tags text[],
    ADD COLUMN labels text[],
    ADD COLUMN clearance int;
CREATE INDEX trace_number ON trace (number);
CREATE INDEX trace_recorded ON trace (recorded_at);
