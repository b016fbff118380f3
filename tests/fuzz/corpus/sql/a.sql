-- Berths.
CREATE TABLE dbo.[berth] (
    depth int DEFAULT 14, -- metres
    name nvarchar(20) CHECK (name <> 'a;b')
);
GO
CREATE OR REPLACE FUNCTION f() RETURNS int AS $$ BEGIN RETURN 1; END $$ LANGUAGE plpgsql;
/* c */ CREATE UNIQUE INDEX i ON berth (depth);
INSERT INTO berth VALUES (1, "a");
ALTER PROCEDURE p @a int AS SELECT * FROM berth
GO 5
