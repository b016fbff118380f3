-- What is kept of questions: one row a question, one a stage, one a statement.

CREATE TABLE trace (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    answer_id text COLLATE "C" NOT NULL UNIQUE,
    collection text NOT NULL,
    question text NOT NULL,
    acl_tags text[] NOT NULL,
    labels text[] NOT NULL,
    clearance int NOT NULL,
    -- `json` keeps the text as it was written; `jsonb` would rewrite numbers.
    settings json NOT NULL,
    answer json,
    asked_at text NOT NULL,
    recorded_at timestamptz NOT NULL
);

CREATE TABLE trace_event (
    trace bigint NOT NULL REFERENCES trace ON DELETE CASCADE,
    place int NOT NULL,
    answer_id text NOT NULL,
    stage text NOT NULL,
    sequence int NOT NULL,
    explain_id text NOT NULL,
    PRIMARY KEY (trace, place)
);

CREATE TABLE trace_quad (
    trace bigint NOT NULL REFERENCES trace ON DELETE CASCADE,
    -- Place of the event in the trace, then of the statement in the event.
    event int NOT NULL,
    seq int NOT NULL,
    s text NOT NULL,
    p text NOT NULL,
    o text NOT NULL,
    o_kind "char" NOT NULL CHECK (o_kind IN ('i', 'l')),
    datatype text NOT NULL,
    g text,
    PRIMARY KEY (trace, event, seq)
);
