-- A query is read in the languages of the chunks that its reader may see, which `lexicon_class` counts. Those of all
-- chunks say what hidden documents are written in. Links are found in the default language.

ALTER TABLE lexicon DROP COLUMN languages;
