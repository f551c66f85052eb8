--@ in place of
    SELECT g.job_id, g.state, g.in_turn, g.batch_id, g.group_key
    FROM @given_back AS g
    WHERE g.state >= 3 AND (g.batch_id IS NOT NULL OR g.group_key IS NOT NULL);
--@ put
    SELECT g.job_id, CASE WHEN g.state >= 3 THEN g.state ELSE 1 END, g.in_turn, g.batch_id, g.group_key
    FROM @given_back AS g;
