-- Jobs that wait for other jobs. An edge says that a child waits for a parent. It is added with its child and never
-- later, so there are no cycles, and it stays as long as its child's row, so that the child can read its parents'
-- outputs and operators see the graph. As long as one of its edges is open (state 0), the child waits: state 6, and
-- jobs.held is 1.
--
-- Parents in many sessions end at once, and a child may have thousands of them. So a call that ends or deletes jobs only
-- adds a row to edge_events (note_edges), in its transaction. After its commit, advance_edges closes the edges, one
-- session at a time.
IF OBJECT_ID(N'[$(schema)].[edges]', N'U') IS NULL
    CREATE TABLE [$(schema)].[edges]
    (
        parent_id bigint  NOT NULL,
        child_id  bigint  NOT NULL,
        -- If the parent dies: 0 the child waits on, because the parent may be requeued; 1 the child is cancelled;
        -- 2 nothing: the child waits only for the parent's end. A cancelled or deleted parent cancels the child with 0
        -- and 1.
        on_dead   tinyint NOT NULL,
        state     tinyint NOT NULL CONSTRAINT edges_state DEFAULT 0,  -- 0 open; the parent is: 3 done, 4 dead, 5 cancelled
        CONSTRAINT edges_pk PRIMARY KEY CLUSTERED (parent_id, state, child_id)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        INDEX edges_child NONCLUSTERED (child_id, state, parent_id)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
IF OBJECT_ID(N'[$(schema)].[edge_events]', N'U') IS NULL
    CREATE TABLE [$(schema)].[edge_events]
    (
        event_id bigint  NOT NULL IDENTITY (1, 1),
        job_id   bigint  NOT NULL,
        -- 3 done, 4 dead, 5 cancelled, or deleted without being done; 0: had no row when a child named it, so it counts as
        -- done unless the event of its deletion is there, too
        state    tinyint NOT NULL,
        is_gone  bit     NOT NULL,  -- 1: the job has no row any more
        tried    bit     NOT NULL CONSTRAINT edge_events_tried DEFAULT 0,  -- 1: something was locked
        CONSTRAINT edge_events_pk PRIMARY KEY CLUSTERED (event_id)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
