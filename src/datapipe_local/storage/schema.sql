-- State of a service. Times are ISO 8601 text in UTC with milliseconds, so that they sort as times.
-- `seq` is the order of creation. Lists use it to sort records with equal values.

CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL                       -- JSON
) WITHOUT ROWID;

-- Digests of the applied seed entries. An unchanged entry is not applied again.
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

-- Sessions in which a user authorizes a connection.
CREATE TABLE connection_bridges (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,                  -- a secret: the only credential of the page
    redirect_uri TEXT NOT NULL,
    integration_id TEXT NOT NULL,
    connection_id TEXT REFERENCES connections (id) ON DELETE CASCADE, -- existing connection to authorize again
    state TEXT,
    label TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    authorized_at TEXT
);
CREATE INDEX connection_bridges_by_expiry ON connection_bridges (expires_at);

-- Records pushed to webhook connections, in order. A record is stored before the response is sent.
CREATE TABLE webhook_records (
    seq INTEGER PRIMARY KEY,
    connection_id TEXT NOT NULL REFERENCES connections (id) ON DELETE CASCADE,
    table_name TEXT NOT NULL,
    received_at TEXT NOT NULL,
    record TEXT NOT NULL                      -- JSON, as received
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
    settings TEXT NOT NULL,                   -- JSON: elt_settings of the interface
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
    origin TEXT NOT NULL,                     -- JSON: location in the source
    incremental_primary_key_name TEXT,        -- JSON
    incremental_pointer_id TEXT,
    sync_interval TEXT,                       -- own schedule, replaces that of the sync
    excluded_columns TEXT NOT NULL,           -- JSON
    hashed_columns TEXT NOT NULL,             -- JSON
    full_sync_at_midnight INTEGER NOT NULL,
    full_sync_always INTEGER NOT NULL,
    protected_from_full_sync INTEGER NOT NULL,
    excluded_substreams TEXT NOT NULL,        -- JSON
    enabled_history_table INTEGER NOT NULL,
    full_refresh_requested INTEGER NOT NULL,
    history_reset_requested INTEGER NOT NULL, -- together with the full refresh
    loaded INTEGER NOT NULL,                  -- the table exists
    rows_so_far INTEGER NOT NULL,             -- loaded rows of an unfinished first load in slices
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
    UNIQUE (elt_stream_id, started_at)        -- the run ID; index of the run list
);

-- Tables that a sync has created, including those of deleted streams.
CREATE TABLE elt_tables (
    elt_sync_id TEXT NOT NULL REFERENCES elt_syncs (id) ON DELETE CASCADE,
    schema_name TEXT NOT NULL COLLATE NOCASE,
    name TEXT NOT NULL COLLATE NOCASE,
    beside TEXT REFERENCES elt_streams (id) ON DELETE SET NULL, -- stream that the additional table belongs to
    PRIMARY KEY (elt_sync_id, name)
) WITHOUT ROWID;

-- Tables to drop.
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
    next_name TEXT,                           -- unpublished changes of a published
    next_folder_path TEXT,                    -- transform
    next_materialization TEXT,
    documentation TEXT,
    latest_version_id TEXT NOT NULL,
    published_version_id TEXT,
    publication INTEGER NOT NULL,             -- number of publications: detects outdated builds
    materialization_status TEXT,
    materialization_error TEXT,
    object_tag TEXT UNIQUE,                   -- object in the warehouse: reference, kind, location
    object_kind TEXT,
    object_schema TEXT COLLATE NOCASE,
    object_name TEXT COLLATE NOCASE,
    orchestration_workflow_id TEXT REFERENCES orchestrations (id),
    cron_expression TEXT,                     -- own schedule
    rebuild_trigger TEXT NOT NULL,            -- none, schedule or orchestration
    deleted_at TEXT,                          -- hidden from clients
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
    rows TEXT,                                -- JSON: the first rows
    num_rows_total INTEGER,
    created_at TEXT NOT NULL
);

CREATE TABLE reverse_etl_syncs (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    enabled INTEGER NOT NULL,
    source_type TEXT NOT NULL,                -- Transform or RawView
    source_id TEXT NOT NULL,                  -- transform ID, or schema.name of the raw view
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
    checkpoint TEXT,                          -- progress, in the format of the destination
    UNIQUE (reverse_etl_sync_id, started_at)
);

-- Last known state of each record at its destination.
CREATE TABLE reverse_etl_records (
    sync_id TEXT NOT NULL REFERENCES reverse_etl_syncs (id) ON DELETE CASCADE,
    record_id TEXT NOT NULL,
    state TEXT NOT NULL,                      -- synced, failed, deleted, or reset (to send again)
    digest TEXT NOT NULL,                     -- of the sent content: detects changed records
    identity TEXT NOT NULL DEFAULT '{}',      -- JSON: key values, by destination property
    present INTEGER NOT NULL DEFAULT 0,       -- the destination has the record, perhaps an old version
    error TEXT,
    run_id TEXT NOT NULL,                     -- run that sent the record
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

-- Tasks of an orchestration run, planned at its start.
CREATE TABLE orchestration_items (
    run_id TEXT NOT NULL REFERENCES orchestration_runs (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    job_kind TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    depends_on TEXT NOT NULL,                 -- JSON: positions
    state TEXT NOT NULL,
    PRIMARY KEY (run_id, position)
) WITHOUT ROWID;

-- Next due time of each schedule. A row is outdated if the resource has another cron expression now.
CREATE TABLE schedules (
    kind TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    cron_expression TEXT NOT NULL,
    due_at TEXT NOT NULL,
    PRIMARY KEY (kind, subject_id)
) WITHOUT ROWID;
CREATE INDEX schedules_by_due_date ON schedules (due_at);

-- Pending work. The transaction that records the result deletes the job, so that exactly the unfinished jobs
-- remain after a crash.
CREATE TABLE jobs (
    -- Never reused: the engine identifies running jobs by it, even after their deletion.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    run_id TEXT,                              -- the run, after its start
    due_at TEXT NOT NULL,
    begun INTEGER NOT NULL,                   -- the run is recorded, its work is due
    orchestration_run_id TEXT,
    orchestration_position INTEGER,
    UNIQUE (kind, subject_id)                 -- one run at a time
);
CREATE INDEX jobs_by_due_date ON jobs (begun, due_at);
