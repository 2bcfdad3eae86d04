-- Roles, grants, keys that are rotated, and issuers of OIDC tokens.

-- Every principal so far was made as its tenant's owner.
ALTER TABLE principals
    ADD COLUMN kind text NOT NULL DEFAULT 'user' CHECK (kind IN ('user', 'service')),
    ADD COLUMN name text NOT NULL DEFAULT '',
    ADD COLUMN role text NOT NULL DEFAULT 'owner'
        CHECK (role IN ('owner', 'admin', 'operator', 'member', 'viewer')),
    -- Grows with every change: what an editor has seen.
    ADD COLUMN version integer NOT NULL DEFAULT 1,
    ADD COLUMN disabled_at timestamptz;
ALTER TABLE principals ALTER COLUMN role DROP DEFAULT;
GRANT UPDATE (name, role, version, disabled_at) ON principals TO herma_authority_service;

-- Whose rights bound the key, besides those of whom it acts for.
ALTER TABLE api_keys ADD COLUMN created_by uuid;
UPDATE api_keys SET created_by = principal_id;
ALTER TABLE api_keys
    ALTER COLUMN created_by SET NOT NULL,
    ADD COLUMN last_used_at timestamptz,
    ADD FOREIGN KEY (tenant_id, created_by) REFERENCES principals (tenant_id, id);
-- Who held all that there was holds all that there is; who could use agents may read.
UPDATE api_keys SET scopes = ARRAY['agent', 'approve', 'audit', 'keys', 'principals', 'profiles', 'read',
                                   'routes', 'tenant', 'usage']
                             || CASE WHEN scopes @> '{operator}' THEN '{platform}'::text[] ELSE '{}' END
    WHERE scopes @> '{agent,keys,profiles}';
UPDATE api_keys SET scopes = array_append(array_remove(scopes, 'operator'), 'platform')
    WHERE scopes @> '{operator}';
CREATE INDEX api_keys_of_principal ON api_keys (tenant_id, principal_id, id);

-- Who may use a profile: everybody of the tenant, or only those with a grant. Of the newest version.
ALTER TABLE profiles ADD COLUMN access text NOT NULL DEFAULT 'tenant' CHECK (access IN ('tenant', 'granted'));
GRANT UPDATE (access) ON profiles TO herma_authority_service;

CREATE TABLE grants (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    principal_id uuid NOT NULL,
    profile_id uuid NOT NULL,
    "right" text NOT NULL CHECK ("right" IN ('use', 'edit', 'approve')),
    granted_by uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, principal_id, profile_id, "right"),
    FOREIGN KEY (tenant_id, principal_id) REFERENCES principals (tenant_id, id),
    FOREIGN KEY (tenant_id, granted_by) REFERENCES principals (tenant_id, id),
    FOREIGN KEY (tenant_id, profile_id) REFERENCES profiles (tenant_id, id)
);

-- Whose tokens a tenant accepts. An issuer and an audience belong to one tenant of the installation, or
-- a token would not say whose it is.
CREATE TABLE issuers (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    id uuid NOT NULL,
    issuer text NOT NULL,
    audience text NOT NULL,
    algorithms text[] NOT NULL,
    -- The claim with a principal's groups, and the role of each group.
    role_claim text NOT NULL,
    roles json NOT NULL,
    -- Of who has no mapped group; NULL refuses.
    default_role text CHECK (default_role IN ('owner', 'admin', 'operator', 'member', 'viewer')),
    created_by uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, issuer, audience),
    FOREIGN KEY (tenant_id, created_by) REFERENCES principals (tenant_id, id)
);
CREATE UNIQUE INDEX issuers_once ON issuers (issuer, audience);

DO $$
DECLARE
    name text;
    mine text := 'tenant_id = nullif(current_setting(''herma.tenant_id'', true), '''')::uuid';
BEGIN
    FOREACH name IN ARRAY ARRAY['grants', 'issuers']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY tenant_only ON %I USING (%s) WITH CHECK (%s)', name, mine, mine);
    END LOOP;
END
$$;
GRANT SELECT, INSERT, DELETE ON grants, issuers TO herma_authority_service;

GRANT SELECT (tenant_id, id, issuer, audience) ON issuers TO herma_authority_crosser;
CREATE POLICY crossing ON issuers FOR SELECT TO herma_authority_crosser USING (true);

CREATE FUNCTION issuer_owner(presented text, audiences text[])
    RETURNS TABLE (tenant_id uuid, issuer_id uuid)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = authority, pg_temp
    AS $$
        SELECT i.tenant_id, i.id FROM issuers i
        WHERE i.issuer = presented AND i.audience = ANY (audiences)
    $$;

-- Names of tenants are for the operator, page by page.
CREATE FUNCTION tenants_after(after text, at_most integer) RETURNS TABLE (tenant_id uuid)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = authority, pg_temp
    AS $$ SELECT t.id FROM tenants t WHERE t.name > after ORDER BY t.name LIMIT at_most $$;

DO $$
DECLARE
    signature text;
BEGIN
    FOREACH signature IN ARRAY ARRAY['issuer_owner(text, text[])', 'tenants_after(text, integer)']
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', signature);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO herma_authority_service', signature);
        EXECUTE format('ALTER FUNCTION %s OWNER TO herma_authority_crosser', signature);
    END LOOP;
END
$$;

-- The right of a principal on a profile, by its role, by the profile's openness, or by a grant. Whoever
-- is disabled has none. Who has any right on a profile may use it.
CREATE FUNCTION has_right(of_tenant uuid, who uuid, on_profile uuid, wanted text) RETURNS boolean
    LANGUAGE sql STABLE SECURITY INVOKER SET search_path = authority, pg_temp
    AS $$
        SELECT EXISTS (
            SELECT FROM principals p
            JOIN profiles f ON f.tenant_id = p.tenant_id AND f.id = on_profile
            WHERE p.tenant_id = of_tenant AND p.id = who AND p.disabled_at IS NULL
              AND (p.role IN ('owner', 'admin')
                   OR wanted = 'approve' AND p.role = 'operator'
                   OR wanted = 'use' AND f.access = 'tenant'
                   OR EXISTS (SELECT FROM grants g
                              WHERE g.tenant_id = of_tenant AND g.principal_id = who
                                AND g.profile_id = on_profile AND (g."right" = wanted OR wanted = 'use'))))
    $$;
REVOKE ALL ON FUNCTION has_right(uuid, uuid, uuid, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION has_right(uuid, uuid, uuid, text) TO herma_authority_service;
