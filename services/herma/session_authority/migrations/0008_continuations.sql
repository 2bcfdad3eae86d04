-- What the entrance wants to find again with a turn: nobody else reads it.
ALTER TABLE turns ADD COLUMN memo text NOT NULL DEFAULT '';
