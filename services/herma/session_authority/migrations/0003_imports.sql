-- Sessions that begin with what was said elsewhere. An imported message belongs to no turn of ours.
ALTER TABLE messages ALTER COLUMN turn_id DROP NOT NULL;

-- The caller's words for the system prompt, fixed when the session is made.
ALTER TABLE sessions ADD COLUMN instructions text NOT NULL DEFAULT '';
