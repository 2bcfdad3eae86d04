-- Notes per profile and principal; every version is kept. Applied as the owner of schema `memory`.

CREATE TABLE notes (
    tenant_id uuid NOT NULL,
    profile_id uuid NOT NULL,
    principal_id uuid NOT NULL,
    name text NOT NULL CHECK (name IN ('MEMORY', 'USER')),
    version bigint NOT NULL,
    content text NOT NULL,
    turn_id uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, profile_id, principal_id, name, version)
);

ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
ALTER TABLE notes FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON notes
    USING (tenant_id = nullif(current_setting('herma.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('herma.tenant_id', true), '')::uuid);

GRANT SELECT, INSERT ON notes TO herma_memory_service;
