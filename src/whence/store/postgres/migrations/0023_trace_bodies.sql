-- A trace is one row: its record as bytes, and what documents it names.

ALTER TABLE trace
    -- Wire form of the record (`TraceRecord`), compressed by zlib; that of a trace which an earlier version stored
    -- is as it is.
    ADD COLUMN body bytea,
    -- What the record may call its documents: the first eight bytes of the SHA-256 of the beginning of chunk ids,
    -- of literals without datatype, and of documents of citations.
    ADD COLUMN names bigint[];

WITH
triple AS (
    SELECT q.trace, q.event, json_agg(json_build_object(
        's', json_build_object('type', 'i', 'iri', q.s),
        'p', json_build_object('type', 'i', 'iri', q.p),
        'o', json_build_object('type', q.o_kind::text, CASE q.o_kind WHEN 'i' THEN 'iri' ELSE 'value' END, q.o,
                               'datatype', q.datatype),
        'g', q.g) ORDER BY q.seq) AS triples
    FROM trace_quad q GROUP BY q.trace, q.event
),
event AS (
    SELECT e.trace, json_agg(json_build_object(
        'answer_id', e.answer_id, 'stage', e.stage, 'sequence', e.sequence, 'explain_id', e.explain_id,
        'triples', coalesce(t.triples, '[]')) ORDER BY e.place) AS events
    FROM trace_event e LEFT JOIN triple t ON t.trace = e.trace AND t.event = e.place GROUP BY e.trace
)
UPDATE trace SET body = convert_to(json_build_object(
    'answer_id', trace.answer_id, 'collection', trace.collection, 'question', trace.question,
    'access', json_build_object('acl_tags', trace.acl_tags, 'labels', trace.labels, 'clearance', trace.clearance),
    'events', coalesce(e.events, '[]'), 'answer', trace.answer, 'settings', trace.settings,
    'asked_at', trace.asked_at)::text, 'UTF8')
FROM trace same LEFT JOIN event e ON e.trace = same.number WHERE same.number = trace.number;

WITH
name AS (
    SELECT trace, coalesce(substring(o FROM '^urn:chunk:[^:]*:[^:]*:'), '') AS name FROM trace_quad WHERE o_kind = 'i'
    UNION
    SELECT trace, o FROM trace_quad WHERE o_kind = 'l' AND datatype = ''
    UNION
    SELECT number, c ->> 'document_id' FROM trace, json_array_elements(answer -> 'citations') c
),
hash AS (
    SELECT trace, array_agg(
        ('x' || encode(substring(sha256(convert_to(name, 'UTF8')) FROM 1 FOR 8), 'hex'))::bit(64)::bigint) AS names
    FROM name WHERE name <> '' GROUP BY trace
)
UPDATE trace SET names = hash.names FROM hash WHERE hash.trace = trace.number;
UPDATE trace SET names = '{}' WHERE names IS NULL;

DROP TABLE trace_event, trace_quad;
ALTER TABLE trace
    DROP COLUMN question, DROP COLUMN acl_tags, DROP COLUMN labels, DROP COLUMN clearance, DROP COLUMN settings,
    DROP COLUMN answer, DROP COLUMN asked_at,
    ALTER COLUMN body SET NOT NULL,
    -- Compressed before it arrives.
    ALTER COLUMN body SET STORAGE EXTERNAL,
    ALTER COLUMN names SET NOT NULL;
CREATE INDEX trace_names ON trace USING gin (names);
