-- How densely passages are linked is found when it is asked, from what the reader may see.
ALTER TABLE passage_links DROP COLUMN counted, DROP COLUMN linked, DROP COLUMN documents;
