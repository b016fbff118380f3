-- What language the words of a chunk were stemmed in, and how many chunks there are of each in each class of rights:
-- a query is stemmed in the languages of what its reader may see, so that a hidden document changes no score.

ALTER TABLE chunk_terms ADD COLUMN language text COLLATE "C" NOT NULL DEFAULT 'english';

ALTER TABLE lexicon_class ADD COLUMN language text COLLATE "C" NOT NULL DEFAULT 'english';
ALTER TABLE lexicon_class DROP CONSTRAINT lexicon_class_pkey;
ALTER TABLE lexicon_class ADD PRIMARY KEY (collection_id, class_id, language);
