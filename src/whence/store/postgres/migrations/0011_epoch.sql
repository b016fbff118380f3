-- The state of all classes of rights: what readers' rights were resolved to holds as long as the stamp stays.
-- It is random, not a number: two databases that began as one copy never have one stamp for different classes.
CREATE TABLE rights_epoch (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    stamp uuid NOT NULL
);

INSERT INTO rights_epoch (stamp) VALUES (gen_random_uuid());

CREATE FUNCTION new_epoch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE whence.rights_epoch SET stamp = gen_random_uuid();
    RETURN NULL;
END
$$;

-- Before, not after: writers take turns at the stamp before they wait for each other's classes, so never in a circle.
CREATE TRIGGER class_changed BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON sec_class
    FOR EACH STATEMENT EXECUTE FUNCTION new_epoch();
