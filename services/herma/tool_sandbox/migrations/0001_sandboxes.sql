-- One sandbox per session. Applied as the owner of schema `sandbox`.

CREATE TABLE sandboxes (
    tenant_id uuid NOT NULL,
    session_id uuid NOT NULL,
    id uuid NOT NULL,
    workspace_id uuid NOT NULL,
    -- Highest epoch seen: the fence.
    epoch bigint NOT NULL,
    secret text NOT NULL,
    instance text NOT NULL DEFAULT '',
    -- The turn for which what older turns left running was killed.
    settled_turn_id uuid,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, session_id),
    UNIQUE (tenant_id, id)
);

ALTER TABLE sandboxes ENABLE ROW LEVEL SECURITY;
ALTER TABLE sandboxes FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON sandboxes
    USING (tenant_id = nullif(current_setting('herma.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('herma.tenant_id', true), '')::uuid);

GRANT SELECT, INSERT, UPDATE ON sandboxes TO herma_sandbox_service;

GRANT SELECT (id) ON sandboxes TO herma_sandbox_crosser;
CREATE POLICY crossing ON sandboxes FOR SELECT TO herma_sandbox_crosser USING (true);

-- Which of these sandboxes have a record.
CREATE FUNCTION known_sandboxes(wanted uuid[]) RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = sandbox, pg_temp
    AS $$ SELECT s.id FROM sandboxes s WHERE s.id = ANY(wanted) $$;
CREATE INDEX sandboxes_id ON sandboxes (id);

REVOKE ALL ON FUNCTION known_sandboxes(uuid[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION known_sandboxes(uuid[]) TO herma_sandbox_service;
ALTER FUNCTION known_sandboxes(uuid[]) OWNER TO herma_sandbox_crosser;
