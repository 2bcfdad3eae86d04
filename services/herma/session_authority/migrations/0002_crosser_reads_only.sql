-- To lock a session's row a role needs the right to update it. Policies add up, so without this one the
-- role that looks across tenants could also change the rows of the tenant that is set.
CREATE POLICY crossing_never_writes ON sessions AS RESTRICTIVE FOR UPDATE TO herma_authority_crosser
    USING (true) WITH CHECK (false);
