-- What was used in sessions that are gone: it counts on.

CREATE TABLE deleted_usage (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    session_id uuid NOT NULL,
    -- The hour of the turns' admission.
    at timestamptz NOT NULL,
    principal_id uuid NOT NULL,
    profile_id uuid NOT NULL,
    turns bigint NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cache_read_tokens bigint NOT NULL,
    cache_write_tokens bigint NOT NULL,
    reasoning_tokens bigint NOT NULL,
    PRIMARY KEY (tenant_id, session_id, at, principal_id)
);
CREATE INDEX deleted_usage_at ON deleted_usage (tenant_id, at);
ALTER TABLE deleted_usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE deleted_usage FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON deleted_usage
    USING (tenant_id = nullif(current_setting('herma.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('herma.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT ON deleted_usage TO herma_authority_service;
