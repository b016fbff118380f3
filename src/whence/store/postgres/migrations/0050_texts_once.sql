-- The text that is embedded is nearly always the content below its headings. It is stored as what stands before the
-- content, which is not stored twice.

ALTER TABLE chunk ADD COLUMN embed_prefix text NOT NULL DEFAULT '';
ALTER TABLE former_chunk ADD COLUMN embed_prefix text NOT NULL DEFAULT '';

DROP INDEX chunk_embedded;

-- Types stay: with USING the tables are written anew, without room for what is gone.
ALTER TABLE chunk
    ALTER COLUMN embed_prefix TYPE text USING CASE WHEN right(embed_text, length(content)) = content
        THEN left(embed_text, length(embed_text) - length(content)) ELSE '' END,
    ALTER COLUMN embed_text TYPE text USING CASE WHEN right(embed_text, length(content)) = content
        THEN '' ELSE embed_text END;

ALTER TABLE former_chunk
    ALTER COLUMN embed_prefix TYPE text USING CASE WHEN right(embed_text, length(content)) = content
        THEN left(embed_text, length(embed_text) - length(content)) ELSE '' END,
    ALTER COLUMN embed_text TYPE text USING CASE WHEN right(embed_text, length(content)) = content
        THEN '' ELSE embed_text END;

-- Equal texts have equal vectors.
CREATE INDEX chunk_embedded ON chunk (collection_id,
    hashtextextended(coalesce(nullif(embed_text, ''), embed_prefix || content), 0));
