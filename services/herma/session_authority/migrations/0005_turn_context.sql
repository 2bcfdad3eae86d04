-- What a model reads beside a user's message (recalled memories), kept with it and replayed byte for byte.
-- NULL: not decided yet. A later write never changes it: see store/ledger.py.
ALTER TABLE messages ADD COLUMN context text;
GRANT UPDATE (context) ON messages TO herma_authority_service;

-- The turn that a provisional system prompt holds for: something that belongs into it could not be had.
-- NULL: the prompt holds for the session.
ALTER TABLE sessions ADD COLUMN system_prompt_turn uuid;
