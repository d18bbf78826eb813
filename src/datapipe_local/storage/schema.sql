-- The state of one service. Times are text: ISO 8601, UTC, milliseconds, Z; as text they sort as times.
-- `seq` is the order of creation, and breaks ties wherever a list is sorted.

CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL                       -- JSON
) WITHOUT ROWID;

-- What a seed has put here: an entry that has not changed since is left alone.
CREATE TABLE seeded (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (kind, id)
) WITHOUT ROWID;

CREATE TABLE connections (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    integration_id TEXT NOT NULL,
    label TEXT NOT NULL,
    settings TEXT NOT NULL,                   -- JSON
    created_at TEXT NOT NULL
);
CREATE INDEX connections_by_creation ON connections (created_at);

-- Sessions in which a person authorizes a connection.
CREATE TABLE connection_bridges (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,                  -- a secret: whoever knows it may authorize
    redirect_uri TEXT NOT NULL,
    integration_id TEXT NOT NULL,
    connection_id TEXT REFERENCES connections (id) ON DELETE CASCADE, -- the connection that is authorized again
    state TEXT,
    label TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    authorized_at TEXT
);
CREATE INDEX connection_bridges_by_expiry ON connection_bridges (expires_at);

-- What was pushed to webhook connections, in order: kept before it is answered.
CREATE TABLE webhook_records (
    seq INTEGER PRIMARY KEY,
    connection_id TEXT NOT NULL REFERENCES connections (id) ON DELETE CASCADE,
    table_name TEXT NOT NULL,
    received_at TEXT NOT NULL,
    record TEXT NOT NULL                      -- JSON, as it arrived
);
CREATE INDEX webhook_records_of_table ON webhook_records (connection_id, table_name, seq);

CREATE TABLE orchestrations (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    cron_schedule TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE INDEX orchestrations_by_name ON orchestrations (name COLLATE NOCASE);

CREATE TABLE elt_syncs (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    connection_id TEXT NOT NULL REFERENCES connections (id),
    destination_schema_name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    sync_interval TEXT,
    enabled INTEGER NOT NULL,
    orchestration_workflow_id TEXT REFERENCES orchestrations (id),
    start_date TEXT,
    settings TEXT NOT NULL,                   -- JSON: what the interface calls elt_settings
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE INDEX elt_syncs_by_creation ON elt_syncs (created_at);
CREATE INDEX elt_syncs_of_connection ON elt_syncs (connection_id, created_at);
CREATE INDEX elt_syncs_of_orchestration ON elt_syncs (orchestration_workflow_id);

CREATE TABLE elt_streams (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    elt_sync_id TEXT NOT NULL REFERENCES elt_syncs (id) ON DELETE CASCADE,
    name TEXT NOT NULL COLLATE NOCASE,
    origin TEXT NOT NULL,                     -- JSON: where in the source, as its kind of source reads it
    incremental_primary_key_name TEXT,        -- JSON
    incremental_pointer_id TEXT,
    sync_interval TEXT,                       -- its own schedule, instead of its sync's
    excluded_columns TEXT NOT NULL,           -- JSON
    hashed_columns TEXT NOT NULL,             -- JSON
    full_sync_at_midnight INTEGER NOT NULL,
    full_sync_always INTEGER NOT NULL,
    protected_from_full_sync INTEGER NOT NULL,
    excluded_substreams TEXT NOT NULL,        -- JSON
    enabled_history_table INTEGER NOT NULL,
    full_refresh_requested INTEGER NOT NULL,
    history_reset_requested INTEGER NOT NULL, -- with it
    loaded INTEGER NOT NULL,                  -- the warehouse has its table
    rows_so_far INTEGER NOT NULL,             -- of a first load in slices: those that the table has; else 0
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    UNIQUE (elt_sync_id, name)
);
CREATE INDEX elt_streams_by_creation ON elt_streams (created_at);
CREATE INDEX elt_streams_of_sync ON elt_streams (elt_sync_id, created_at);

CREATE TABLE elt_stream_runs (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    elt_sync_id TEXT NOT NULL,
    elt_stream_id TEXT NOT NULL REFERENCES elt_streams (id) ON DELETE CASCADE,
    started_at TEXT NOT NULL,
    finished_at TEXT,
    status TEXT NOT NULL,
    rows_synced INTEGER,
    bytes_synced INTEGER NOT NULL,
    full_sync_trigger TEXT NOT NULL,
    operation_mode TEXT NOT NULL,
    error_message TEXT,
    UNIQUE (elt_stream_id, started_at)        -- the two make the id; the list is read along it
);

-- The tables that a sync has made, also those whose streams are gone.
CREATE TABLE elt_tables (
    elt_sync_id TEXT NOT NULL REFERENCES elt_syncs (id) ON DELETE CASCADE,
    schema_name TEXT NOT NULL COLLATE NOCASE,
    name TEXT NOT NULL COLLATE NOCASE,
    beside TEXT REFERENCES elt_streams (id) ON DELETE SET NULL, -- the stream beside whose table it stands
    PRIMARY KEY (elt_sync_id, name)
) WITHOUT ROWID;

-- Tables that are to be dropped: promised, and not yet done.
CREATE TABLE doomed_tables (
    schema_name TEXT NOT NULL COLLATE NOCASE,
    name TEXT NOT NULL COLLATE NOCASE,
    PRIMARY KEY (schema_name, name)
) WITHOUT ROWID;

CREATE TABLE custom_reports (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    elt_sync_id TEXT NOT NULL REFERENCES elt_syncs (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    query TEXT NOT NULL,
    source_stream_name TEXT NOT NULL COLLATE NOCASE,
    created_at TEXT NOT NULL,
    UNIQUE (elt_sync_id, source_stream_name)
);

CREATE TABLE transforms (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    folder_path TEXT NOT NULL,
    status TEXT NOT NULL,
    materialization TEXT NOT NULL,
    next_name TEXT,                           -- of what is published: what it is called, where it is and what it is
    next_folder_path TEXT,                    -- once it is published again, where that differs
    next_materialization TEXT,
    documentation TEXT,
    latest_version_id TEXT NOT NULL,
    published_version_id TEXT,
    publication INTEGER NOT NULL,             -- how often it was published: tells a build that it is outdated
    materialization_status TEXT,
    materialization_error TEXT,
    object_tag TEXT UNIQUE,                   -- what stands in the warehouse: its reference, its kind, its place
    object_kind TEXT,
    object_schema TEXT COLLATE NOCASE,
    object_name TEXT COLLATE NOCASE,
    orchestration_workflow_id TEXT REFERENCES orchestrations (id),
    cron_expression TEXT,                     -- its own schedule
    rebuild_trigger TEXT NOT NULL,            -- what has it built again: none, schedule or orchestration
    deleted_at TEXT,                          -- it is gone for callers, and stays here
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE INDEX transforms_by_creation ON transforms (created_at) WHERE deleted_at IS NULL;
CREATE INDEX transforms_by_object ON transforms (object_schema, object_name);
CREATE INDEX transforms_of_orchestration ON transforms (orchestration_workflow_id);

CREATE TABLE transform_versions (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    transform_id TEXT NOT NULL REFERENCES transforms (id) ON DELETE CASCADE,
    sql_template TEXT NOT NULL,
    created_at TEXT NOT NULL
);
CREATE INDEX transform_versions_of_transform ON transform_versions (transform_id, created_at);

CREATE TABLE query_previews (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    dw_sql TEXT NOT NULL,
    status TEXT NOT NULL,
    error TEXT,
    rows TEXT,                                -- JSON: the first of them
    num_rows_total INTEGER,
    created_at TEXT NOT NULL
);

CREATE TABLE reverse_etl_syncs (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    enabled INTEGER NOT NULL,
    source_type TEXT NOT NULL,                -- Transform or RawView
    source_id TEXT NOT NULL,                  -- the transform, or the raw view's schema and name with a dot between
    destination_connection_id TEXT NOT NULL REFERENCES connections (id),
    object_type_id TEXT NOT NULL,
    sync_interval TEXT,
    orchestration_workflow_id TEXT REFERENCES orchestrations (id),
    operation TEXT NOT NULL,                  -- JSON
    settings TEXT NOT NULL,                   -- JSON
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE INDEX reverse_etl_syncs_by_creation ON reverse_etl_syncs (created_at);
CREATE INDEX reverse_etl_syncs_of_connection ON reverse_etl_syncs (destination_connection_id, created_at);
CREATE INDEX reverse_etl_syncs_of_orchestration ON reverse_etl_syncs (orchestration_workflow_id);

CREATE TABLE reverse_etl_sync_runs (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    reverse_etl_sync_id TEXT NOT NULL REFERENCES reverse_etl_syncs (id) ON DELETE CASCADE,
    started_at TEXT NOT NULL,
    finished_at TEXT,
    status TEXT NOT NULL,
    total_rows INTEGER,
    distinct_rows INTEGER,
    new_rows INTEGER,
    synced_rows INTEGER,
    failed_rows INTEGER,
    error TEXT,
    checkpoint TEXT,                          -- how far its destination got, in the destination's own words
    UNIQUE (reverse_etl_sync_id, started_at)
);

-- The last that is known of each record at its destination.
CREATE TABLE reverse_etl_records (
    sync_id TEXT NOT NULL REFERENCES reverse_etl_syncs (id) ON DELETE CASCADE,
    record_id TEXT NOT NULL,
    state TEXT NOT NULL,                      -- synced, failed, deleted there, or reset: to be sent again
    digest TEXT NOT NULL,                     -- of what was sent: another one means that the record changed
    identity TEXT NOT NULL DEFAULT '{}',      -- JSON: the values of its key, by the destination's names
    present INTEGER NOT NULL DEFAULT 0,       -- the destination has it, be it as it was before
    error TEXT,
    run_id TEXT NOT NULL,                     -- the run that sent it
    PRIMARY KEY (sync_id, record_id)
) WITHOUT ROWID;
CREATE INDEX reverse_etl_records_by_state ON reverse_etl_records (sync_id, state, record_id);
CREATE INDEX reverse_etl_records_by_run ON reverse_etl_records (run_id, state);

CREATE TABLE orchestration_runs (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    orchestration_id TEXT NOT NULL REFERENCES orchestrations (id) ON DELETE CASCADE,
    status TEXT NOT NULL,
    due_at TEXT NOT NULL,
    started_at TEXT,
    finished_at TEXT
);
CREATE INDEX orchestration_runs_by_due_date ON orchestration_runs (due_at);
CREATE INDEX orchestration_runs_of_orchestration ON orchestration_runs (orchestration_id, due_at);
CREATE INDEX orchestration_runs_unfinished ON orchestration_runs (due_at) WHERE finished_at IS NULL;

-- What an orchestration run has to do, drawn up as it starts.
CREATE TABLE orchestration_items (
    run_id TEXT NOT NULL REFERENCES orchestration_runs (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    job_kind TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    depends_on TEXT NOT NULL,                 -- JSON: positions
    state TEXT NOT NULL,
    PRIMARY KEY (run_id, position)
) WITHOUT ROWID;

-- When what runs by itself is due next. A row with another expression than the thing now has is outdated.
CREATE TABLE schedules (
    kind TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    cron_expression TEXT NOT NULL,
    due_at TEXT NOT NULL,
    PRIMARY KEY (kind, subject_id)
) WITHOUT ROWID;
CREATE INDEX schedules_by_due_date ON schedules (due_at);

-- What the service has promised and not yet done. A job goes in the transaction that notes its result, so that
-- after a crash exactly what is still owed is here.
CREATE TABLE jobs (
    -- Never given again: by it the engine knows what it is at work on, also after that was deleted.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    run_id TEXT,                              -- the run, once it has begun
    due_at TEXT NOT NULL,
    begun INTEGER NOT NULL,                   -- the run is on record, its work is due
    orchestration_run_id TEXT,
    orchestration_position INTEGER,
    UNIQUE (kind, subject_id)                 -- one run at a time
);
CREATE INDEX jobs_by_due_date ON jobs (begun, due_at);
