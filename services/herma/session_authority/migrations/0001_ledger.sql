-- Tenants, who acts for them, and the ledger. Applied as the owner of schema `authority`.

CREATE TABLE tenants (
    id uuid PRIMARY KEY,
    name text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE principals (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    id uuid NOT NULL,
    issuer text NOT NULL,
    subject text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, issuer, subject)
);

CREATE TABLE api_keys (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    principal_id uuid NOT NULL,
    name text NOT NULL,
    prefix text NOT NULL,
    hash bytea NOT NULL,
    scopes text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, principal_id) REFERENCES principals (tenant_id, id)
);
CREATE UNIQUE INDEX api_keys_hash ON api_keys (hash);

CREATE TABLE profiles (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    id uuid NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, name)
);

-- A turn pins a version, so a version never changes.
CREATE TABLE profile_versions (
    tenant_id uuid NOT NULL,
    profile_id uuid NOT NULL,
    version integer NOT NULL,
    spec json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, profile_id, version),
    FOREIGN KEY (tenant_id, profile_id) REFERENCES profiles (tenant_id, id)
);

CREATE TABLE sessions (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    id uuid NOT NULL,
    principal_id uuid NOT NULL,
    profile_id uuid NOT NULL,
    key text,
    title text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Newest event; the sequence is gapless because this row is locked until the commit.
    last_seq bigint NOT NULL DEFAULT 0,
    -- Last place given out in the transcript.
    last_position bigint NOT NULL DEFAULT 0,
    -- Fencing token of the newest lease, release or end.
    epoch bigint NOT NULL DEFAULT 0,
    -- Built at the first model call, reused byte for byte.
    system_prompt text,
    -- Since when a turn may be claimed; NULL when none waits or one is leased.
    runnable_since timestamptz,
    -- 0 for turns that were under way before, 1 for new ones.
    runnable_class smallint NOT NULL DEFAULT 1,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, principal_id, key),
    FOREIGN KEY (tenant_id, principal_id) REFERENCES principals (tenant_id, id),
    FOREIGN KEY (tenant_id, profile_id) REFERENCES profiles (tenant_id, id)
);
CREATE INDEX sessions_runnable ON sessions (runnable_class, runnable_since)
    WHERE runnable_since IS NOT NULL;
CREATE INDEX sessions_of_principal ON sessions (tenant_id, principal_id, id);

CREATE TABLE turns (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    session_id uuid NOT NULL,
    principal_id uuid NOT NULL,
    profile_id uuid NOT NULL,
    profile_version integer NOT NULL,
    kind text NOT NULL,
    trust text NOT NULL CHECK (trust IN ('trusted', 'untrusted')),
    content text NOT NULL,
    state text NOT NULL CHECK (state IN ('queued', 'running', 'waiting', 'completed', 'failed',
                                         'interrupted', 'cancelled', 'expired')),
    exit_reason text NOT NULL DEFAULT '',
    error text NOT NULL DEFAULT '',
    attempt integer NOT NULL DEFAULT 0,
    -- Attempts that ended with their runner's lease and without a step.
    deaths integer NOT NULL DEFAULT 0,
    seq bigint NOT NULL,
    ended_seq bigint,
    last_step bigint NOT NULL DEFAULT 0,
    iterations integer NOT NULL DEFAULT 0,
    input_tokens bigint NOT NULL DEFAULT 0,
    output_tokens bigint NOT NULL DEFAULT 0,
    cache_read_tokens bigint NOT NULL DEFAULT 0,
    cache_write_tokens bigint NOT NULL DEFAULT 0,
    reasoning_tokens bigint NOT NULL DEFAULT 0,
    interrupt_requested boolean NOT NULL DEFAULT false,
    open_message_id uuid,
    traceparent text NOT NULL DEFAULT '',
    attempt_context text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    ended_at timestamptz,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, session_id) REFERENCES sessions (tenant_id, id),
    FOREIGN KEY (tenant_id, profile_id, profile_version)
        REFERENCES profile_versions (tenant_id, profile_id, version)
);
CREATE INDEX turns_open ON turns (tenant_id, session_id, seq)
    WHERE state IN ('queued', 'running', 'waiting');

CREATE TABLE leases (
    tenant_id uuid NOT NULL,
    session_id uuid NOT NULL,
    turn_id uuid NOT NULL,
    epoch bigint NOT NULL,
    runner_id uuid NOT NULL,
    request_id uuid NOT NULL,
    acquired_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    acknowledged boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, session_id),
    FOREIGN KEY (tenant_id, turn_id) REFERENCES turns (tenant_id, id)
);
CREATE UNIQUE INDEX leases_request ON leases (request_id);
CREATE INDEX leases_runner ON leases (runner_id);
CREATE INDEX leases_expiry ON leases (expires_at);

CREATE TABLE steps (
    tenant_id uuid NOT NULL,
    turn_id uuid NOT NULL,
    step bigint NOT NULL,
    epoch bigint NOT NULL,
    digest bytea NOT NULL,
    -- The answer, to give again when the reply was lost.
    message_ids uuid[] NOT NULL,
    call_ids uuid[] NOT NULL,
    last_seq bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, turn_id, step),
    FOREIGN KEY (tenant_id, turn_id) REFERENCES turns (tenant_id, id)
);

CREATE TABLE messages (
    tenant_id uuid NOT NULL,
    session_id uuid NOT NULL,
    id uuid NOT NULL,
    turn_id uuid NOT NULL,
    position bigint NOT NULL,
    role text NOT NULL CHECK (role IN ('user', 'assistant', 'tool')),
    content text NOT NULL,
    call_id uuid,
    principal_id uuid NOT NULL,
    trust text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, session_id, position),
    FOREIGN KEY (tenant_id, turn_id) REFERENCES turns (tenant_id, id)
);

-- What a model call was built from beyond the ledger, and what it answered beyond the message.
CREATE TABLE model_calls (
    tenant_id uuid NOT NULL,
    message_id uuid NOT NULL,
    turn_id uuid NOT NULL,
    attempt integer NOT NULL,
    provider text NOT NULL,
    model text NOT NULL,
    parameters json NOT NULL,
    outcome text NOT NULL DEFAULT '',
    finish_reason text NOT NULL DEFAULT '',
    response_id text NOT NULL DEFAULT '',
    response_model text NOT NULL DEFAULT '',
    began_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    PRIMARY KEY (tenant_id, message_id),
    FOREIGN KEY (tenant_id, turn_id) REFERENCES turns (tenant_id, id)
);

CREATE TABLE calls (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    session_id uuid NOT NULL,
    turn_id uuid NOT NULL,
    message_id uuid NOT NULL,
    ordinal integer NOT NULL,
    -- The place in the transcript that is kept for its result.
    position bigint NOT NULL,
    provider_call_id text NOT NULL,
    tool text NOT NULL,
    arguments text NOT NULL,
    state text NOT NULL CHECK (state IN ('proposed', 'allowed', 'denied', 'awaiting', 'running',
                                         'completed', 'cancelled', 'outcome_unknown')),
    rule text NOT NULL DEFAULT '',
    instance text NOT NULL DEFAULT '',
    is_error boolean NOT NULL DEFAULT false,
    details json,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    ended_at timestamptz,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, message_id, ordinal),
    FOREIGN KEY (tenant_id, turn_id) REFERENCES turns (tenant_id, id),
    FOREIGN KEY (tenant_id, message_id) REFERENCES messages (tenant_id, id)
);
CREATE INDEX calls_of_turn ON calls (tenant_id, turn_id, created_at, ordinal);
CREATE INDEX calls_of_session ON calls (tenant_id, session_id);

CREATE TABLE events (
    tenant_id uuid NOT NULL,
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    kind text NOT NULL,
    turn_id uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    data text NOT NULL,
    PRIMARY KEY (tenant_id, session_id, seq),
    FOREIGN KEY (tenant_id, session_id) REFERENCES sessions (tenant_id, id)
);

-- Streamed text of open messages; pruned when they close, so losing it to a crash is harmless.
CREATE TABLE deltas (
    tenant_id uuid NOT NULL,
    message_id uuid NOT NULL,
    attempt integer NOT NULL,
    "offset" bigint NOT NULL,
    text text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, message_id, attempt, "offset")
);

CREATE TABLE idempotency (
    tenant_id uuid NOT NULL,
    principal_id uuid NOT NULL,
    operation text NOT NULL,
    key text NOT NULL,
    digest bytea NOT NULL,
    response json,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, principal_id, operation, key)
);

-- Row-level security: the tenant is set per transaction; without it no row is seen.
DO $$
DECLARE
    name text;
    mine text;
BEGIN
    FOREACH name IN ARRAY ARRAY['tenants', 'principals', 'api_keys', 'profiles', 'profile_versions',
                                'sessions', 'turns', 'leases', 'steps', 'messages', 'model_calls',
                                'calls', 'events', 'deltas', 'idempotency']
    LOOP
        mine := format('%I = nullif(current_setting(''herma.tenant_id'', true), '''')::uuid',
                       CASE name WHEN 'tenants' THEN 'id' ELSE 'tenant_id' END);
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY tenant_only ON %I USING (%s) WITH CHECK (%s)', name, mine, mine);
    END LOOP;
END
$$;

GRANT SELECT, INSERT ON tenants, principals, profiles, profile_versions, steps, messages, events
    TO herma_authority_service;
GRANT SELECT, INSERT, UPDATE ON api_keys, sessions, turns, calls, model_calls, idempotency
    TO herma_authority_service;
GRANT SELECT, INSERT, UPDATE, DELETE ON leases, deltas TO herma_authority_service;

-- What must look across tenants: ids, states and times only.
GRANT SELECT (tenant_id, id, hash) ON api_keys TO herma_authority_crosser;
CREATE POLICY crossing ON api_keys FOR SELECT TO herma_authority_crosser USING (true);
GRANT SELECT (id, name) ON tenants TO herma_authority_crosser;
CREATE POLICY crossing ON tenants FOR SELECT TO herma_authority_crosser USING (true);
GRANT SELECT (tenant_id, id, runnable_since, runnable_class), UPDATE (runnable_since) ON sessions
    TO herma_authority_crosser;
CREATE POLICY crossing ON sessions FOR SELECT TO herma_authority_crosser USING (true);
CREATE POLICY crossing_lock ON sessions FOR UPDATE TO herma_authority_crosser
    USING (true) WITH CHECK (false);
GRANT SELECT (tenant_id, session_id, turn_id, epoch, runner_id, request_id, acquired_at, expires_at,
              acknowledged) ON leases TO herma_authority_crosser;
CREATE POLICY crossing ON leases FOR SELECT TO herma_authority_crosser USING (true);
GRANT SELECT (tenant_id, id, interrupt_requested) ON turns TO herma_authority_crosser;
CREATE POLICY crossing ON turns FOR SELECT TO herma_authority_crosser USING (true);

CREATE FUNCTION key_owner(presented_hash bytea) RETURNS TABLE (tenant_id uuid, key_id uuid)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = authority, pg_temp
    AS $$ SELECT k.tenant_id, k.id FROM api_keys k WHERE k.hash = presented_hash $$;

CREATE FUNCTION tenant_named(wanted text) RETURNS uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = authority, pg_temp
    AS $$ SELECT t.id FROM tenants t WHERE t.name = wanted $$;

-- Locks one runnable session for the caller's transaction.
CREATE FUNCTION take_runnable() RETURNS TABLE (tenant_id uuid, session_id uuid)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = authority, pg_temp
    AS $$
        SELECT s.tenant_id, s.id FROM sessions s
        WHERE s.runnable_since IS NOT NULL
        ORDER BY s.runnable_class, s.runnable_since
        LIMIT 1 FOR UPDATE SKIP LOCKED
    $$;

CREATE FUNCTION lease_of_request(wanted uuid) RETURNS TABLE (tenant_id uuid, session_id uuid)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = authority, pg_temp
    AS $$ SELECT l.tenant_id, l.session_id FROM leases l WHERE l.request_id = wanted $$;

CREATE FUNCTION lapsed_leases(acknowledge_within interval, at_most integer)
    RETURNS TABLE (tenant_id uuid, session_id uuid)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = authority, pg_temp
    AS $$
        SELECT l.tenant_id, l.session_id FROM leases l
        WHERE l.expires_at <= now()
           OR (NOT l.acknowledged AND l.acquired_at <= now() - acknowledge_within)
        LIMIT at_most
    $$;

CREATE FUNCTION interrupts_of(runner uuid) RETURNS TABLE (turn_id uuid, epoch bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = authority, pg_temp
    AS $$
        SELECT l.turn_id, l.epoch FROM leases l
        JOIN turns t ON t.tenant_id = l.tenant_id AND t.id = l.turn_id
        WHERE l.runner_id = runner AND t.interrupt_requested
    $$;

DO $$
DECLARE
    signature text;
BEGIN
    FOREACH signature IN ARRAY ARRAY['key_owner(bytea)', 'tenant_named(text)', 'take_runnable()',
                                     'lease_of_request(uuid)', 'lapsed_leases(interval, integer)',
                                     'interrupts_of(uuid)']
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', signature);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO herma_authority_service', signature);
        EXECUTE format('ALTER FUNCTION %s OWNER TO herma_authority_crosser', signature);
    END LOOP;
END
$$;
