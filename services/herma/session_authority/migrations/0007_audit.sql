-- What was done to a tenant, and by whom: a chain of records that nobody rewrites unnoticed.

CREATE TABLE audit (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    seq bigint NOT NULL,
    at timestamptz NOT NULL,
    -- Who did it; NULL for the installation itself.
    principal_id uuid,
    key_id uuid,
    action text NOT NULL,
    target text NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('done', 'refused')),
    -- JSON object: small, without secrets and without anybody's words.
    details text NOT NULL,
    trace_id text NOT NULL,
    previous bytea NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (tenant_id, seq)
);

-- The end of each tenant's chain, locked while a record is added.
CREATE TABLE audit_heads (
    tenant_id uuid PRIMARY KEY REFERENCES tenants (id),
    seq bigint NOT NULL,
    hash bytea NOT NULL,
    at timestamptz NOT NULL
);
CREATE INDEX audit_heads_changed ON audit_heads (at);

DO $$
DECLARE
    name text;
    mine text := 'tenant_id = nullif(current_setting(''herma.tenant_id'', true), '''')::uuid';
BEGIN
    FOREACH name IN ARRAY ARRAY['audit', 'audit_heads']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY tenant_only ON %I USING (%s) WITH CHECK (%s)', name, mine, mine);
    END LOOP;
END
$$;
GRANT SELECT, INSERT ON audit TO herma_authority_service;
GRANT SELECT, INSERT, UPDATE ON audit_heads TO herma_authority_service;

CREATE FUNCTION keep_audit() RETURNS trigger
    LANGUAGE plpgsql SET search_path = authority, pg_temp
    AS $$ BEGIN RAISE EXCEPTION 'the audit log is only added to'; END $$;
CREATE TRIGGER only_added BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION keep_audit();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION keep_audit();

-- Ends of chains that grew, for what writes them down outside of the database: hashes tell nothing.
GRANT SELECT (tenant_id, seq, hash, at) ON audit_heads TO herma_authority_crosser;
CREATE POLICY crossing ON audit_heads FOR SELECT TO herma_authority_crosser USING (true);
CREATE FUNCTION audit_heads_since(moment timestamptz, after uuid, at_most integer)
    RETURNS TABLE (tenant_id uuid, seq bigint, hash bytea)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = authority, pg_temp
    AS $$
        SELECT h.tenant_id, h.seq, h.hash FROM audit_heads h
        WHERE h.at >= moment AND (after IS NULL OR h.tenant_id > after)
        ORDER BY h.tenant_id LIMIT at_most
    $$;
REVOKE ALL ON FUNCTION audit_heads_since(timestamptz, uuid, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION audit_heads_since(timestamptz, uuid, integer) TO herma_authority_service;
ALTER FUNCTION audit_heads_since(timestamptz, uuid, integer) OWNER TO herma_authority_crosser;
