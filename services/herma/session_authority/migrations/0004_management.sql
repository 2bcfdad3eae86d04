-- Profiles that change, and sessions that are deleted.

-- Under which version of the profile the stored system prompt was built: a turn that pins another one
-- builds it anew. Every prompt so far was built under version 1, for no profile could change.
ALTER TABLE sessions ADD COLUMN prompt_profile_version integer NOT NULL DEFAULT 1;

GRANT UPDATE (version) ON profiles TO herma_authority_service;

-- A session goes with all that hangs on it. What is kept by idempotency key stays: ids and digests.
GRANT DELETE ON sessions, turns, steps, messages, model_calls, calls, events TO herma_authority_service;
CREATE INDEX turns_of_session ON turns (tenant_id, session_id, seq);
CREATE INDEX messages_of_turn ON messages (tenant_id, turn_id);
CREATE INDEX model_calls_of_turn ON model_calls (tenant_id, turn_id);
