-- Profiles that change, and sessions that are deleted.

-- Under which version of the profile the stored system prompt was built: a turn that pins another one
-- builds it anew. Every prompt so far was built under version 1, for no profile could change.
ALTER TABLE sessions ADD COLUMN prompt_profile_version integer NOT NULL DEFAULT 1;

GRANT UPDATE (version) ON profiles TO herma_authority_service;

CREATE INDEX turns_of_session ON turns (tenant_id, session_id, seq);
CREATE INDEX messages_of_turn ON messages (tenant_id, turn_id);
CREATE INDEX model_calls_of_turn ON model_calls (tenant_id, turn_id);

-- Deletes a session with all that hangs on it; the caller holds its row. The service itself may still
-- delete nothing of a ledger: this is the owner's right, and forced row-level security keeps it within
-- the tenant that is set. What is kept by idempotency key stays: ids and digests.
CREATE FUNCTION delete_session(of_tenant uuid, wanted uuid) RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = authority, pg_temp
    AS $$
        -- Streamed text is written under a lock on the turn, not on the session.
        SELECT FROM turns WHERE tenant_id = of_tenant AND session_id = wanted FOR UPDATE;
        DELETE FROM deltas d USING model_calls m, turns t
            WHERE d.tenant_id = of_tenant AND m.tenant_id = of_tenant AND t.tenant_id = of_tenant
              AND t.session_id = wanted AND m.turn_id = t.id AND d.message_id = m.message_id;
        DELETE FROM leases WHERE tenant_id = of_tenant AND session_id = wanted;
        DELETE FROM steps s USING turns t
            WHERE s.tenant_id = of_tenant AND t.tenant_id = of_tenant AND t.session_id = wanted
              AND s.turn_id = t.id;
        DELETE FROM model_calls m USING turns t
            WHERE m.tenant_id = of_tenant AND t.tenant_id = of_tenant AND t.session_id = wanted
              AND m.turn_id = t.id;
        DELETE FROM calls WHERE tenant_id = of_tenant AND session_id = wanted;
        DELETE FROM messages WHERE tenant_id = of_tenant AND session_id = wanted;
        DELETE FROM events WHERE tenant_id = of_tenant AND session_id = wanted;
        DELETE FROM turns WHERE tenant_id = of_tenant AND session_id = wanted;
        DELETE FROM sessions WHERE tenant_id = of_tenant AND id = wanted;
    $$;
REVOKE ALL ON FUNCTION delete_session(uuid, uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION delete_session(uuid, uuid) TO herma_authority_service;
