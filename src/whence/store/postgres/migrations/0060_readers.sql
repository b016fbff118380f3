-- What the web page keeps of its readers. A reader is a digest: of the name of a token, or of a browser's id.

CREATE TABLE reader_session (
    -- SHA-256 of the id, which is stored nowhere.
    digest text PRIMARY KEY,
    -- SHA-256 of the token; empty for a reader of an identity provider, whose rights are in `caller`.
    token text NOT NULL,
    caller text NOT NULL,
    ends_at timestamptz NOT NULL
);

-- Whose answer is whose. The question stands in the trace alone.
CREATE TABLE reader_answer (
    number bigint GENERATED ALWAYS AS IDENTITY,
    reader text NOT NULL,
    answer_id text NOT NULL,
    PRIMARY KEY (reader, answer_id)
);

CREATE INDEX reader_answer_id ON reader_answer (answer_id);

CREATE TABLE reader_feedback (
    answer_id text NOT NULL,
    reader text NOT NULL,
    verdict text NOT NULL CHECK (verdict IN ('right', 'wrong', 'missing')),
    note text NOT NULL,
    given_at timestamptz NOT NULL,
    PRIMARY KEY (answer_id, reader)
);
