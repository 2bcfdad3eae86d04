-- Notes by entry, facts with their index, and the answers to calls. Applied as the owner of schema
-- `memory`.

-- `content` stays the document as one text; NULL entries: written before entries were.
ALTER TABLE notes ADD COLUMN entries jsonb;
ALTER TABLE notes ADD COLUMN last_entry integer NOT NULL DEFAULT 0;

CREATE TABLE facts (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    profile_id uuid NOT NULL,
    principal_id uuid NOT NULL,
    text text NOT NULL,
    category text NOT NULL,
    entities text[] NOT NULL,
    trust double precision NOT NULL CHECK (trust BETWEEN 0 AND 1),
    source_turn_id uuid NOT NULL,
    valid_from timestamptz,
    valid_to timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Of the folded text: the same thing told again is the same fact.
    digest bytea NOT NULL,
    -- Folded words and bigrams, each behind a name space of the scope: see domain/scope.py.
    keys text[] NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, profile_id, principal_id, digest)
);
CREATE INDEX facts_newest ON facts (tenant_id, profile_id, principal_id, id);
-- Without a pending list: a search must not pay for earlier writes.
CREATE INDEX facts_keys ON facts USING gin (keys) WITH (fastupdate = off);

-- In how many facts of a scope each term is: rarity is known without counting. The empty term counts the
-- facts.
CREATE TABLE terms (
    tenant_id uuid NOT NULL,
    profile_id uuid NOT NULL,
    principal_id uuid NOT NULL,
    term text NOT NULL,
    facts bigint NOT NULL CHECK (facts >= 0),
    PRIMARY KEY (tenant_id, profile_id, principal_id, term)
);

-- What a call wrote and was answered: a repeat gets the same answer.
CREATE TABLE calls (
    tenant_id uuid NOT NULL,
    call_id uuid NOT NULL,
    digest bytea NOT NULL,
    response json,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, call_id)
);

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['facts', 'terms', 'calls']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY tenant_only ON %I'
                       ' USING (tenant_id = nullif(current_setting(''herma.tenant_id'', true), '''')::uuid)'
                       ' WITH CHECK (tenant_id = nullif(current_setting(''herma.tenant_id'', true), '''')::uuid)',
                       name);
    END LOOP;
END
$$;

GRANT SELECT, INSERT, UPDATE, DELETE ON facts, terms TO herma_memory_service;
GRANT SELECT, INSERT, UPDATE (response) ON calls TO herma_memory_service;

-- Full-text search. `&&` is not leakproof, so under a policy it could not use the index: this function has
-- a policy of its own that hides nothing, and filters by the tenant that is set. It answers ids alone.
GRANT SELECT (tenant_id, id, profile_id, principal_id, valid_from, valid_to, keys) ON facts
    TO herma_memory_crosser;
CREATE POLICY searching ON facts FOR SELECT TO herma_memory_crosser USING (true);

-- The newest facts of a scope, at most so many, that hold now and have one of the keys.
CREATE FUNCTION propose_facts(of_profile uuid, of_principal uuid, wanted text[], at_most integer)
    RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = memory, pg_temp
    AS $$
        WITH found AS MATERIALIZED (
            SELECT f.id, f.tenant_id, f.profile_id, f.principal_id, f.valid_from, f.valid_to
            FROM facts f WHERE f.keys && wanted
        )
        SELECT found.id FROM found
        WHERE found.tenant_id = nullif(current_setting('herma.tenant_id', true), '')::uuid
          AND found.profile_id = of_profile AND found.principal_id = of_principal
          AND (found.valid_from IS NULL OR found.valid_from <= now())
          AND (found.valid_to IS NULL OR found.valid_to > now())
        ORDER BY found.id DESC LIMIT at_most
    $$;
REVOKE ALL ON FUNCTION propose_facts(uuid, uuid, text[], integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION propose_facts(uuid, uuid, text[], integer) TO herma_memory_service;
ALTER FUNCTION propose_facts(uuid, uuid, text[], integer) OWNER TO herma_memory_crosser;
