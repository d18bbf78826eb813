-- State of the control plane, in the database of the service, so that both change in one transaction.

CREATE TABLE IF NOT EXISTS journal_requests (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,    -- order of arrival, never reused
    at TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    query TEXT NOT NULL,
    resource_id TEXT,
    fault TEXT,                               -- JSON: the applied rule and its effect
    committed INTEGER NOT NULL DEFAULT 0,     -- the request changed the state
    service_status INTEGER,                   -- status of the service
    status INTEGER,                           -- status that was sent
    answered_at TEXT,
    run_id TEXT,                              -- in the response of the service, sent or not
    status_url TEXT
);
CREATE INDEX IF NOT EXISTS journal_requests_of_resource ON journal_requests (resource_id);

CREATE TABLE IF NOT EXISTS journal_runs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    run_id TEXT,
    trigger TEXT NOT NULL,
    request INTEGER,                          -- journal_requests.seq
    orchestration_run_id TEXT,
    requested_at TEXT NOT NULL,
    started_at TEXT,
    finished_at TEXT,
    status TEXT NOT NULL,
    job INTEGER                               -- jobs.seq, valid until finished_at
);
CREATE INDEX IF NOT EXISTS journal_runs_of_resource ON journal_runs (resource_id);
CREATE INDEX IF NOT EXISTS journal_runs_by_run ON journal_runs (run_id);
CREATE INDEX IF NOT EXISTS journal_runs_of_request ON journal_runs (request);
CREATE INDEX IF NOT EXISTS journal_runs_unfinished ON journal_runs (job) WHERE finished_at IS NULL;

CREATE TABLE IF NOT EXISTS control_faults (
    position INTEGER PRIMARY KEY,
    rule TEXT NOT NULL,                       -- JSON
    passed INTEGER NOT NULL DEFAULT 0,        -- number of requests that `skip` let pass
    acted INTEGER NOT NULL DEFAULT 0
);

-- Outcomes of the next runs, one row each.
CREATE TABLE IF NOT EXISTS control_outcomes (
    seq INTEGER PRIMARY KEY,
    resource_id TEXT NOT NULL,
    error TEXT,
    is_slice INTEGER NOT NULL,
    taken_by TEXT                             -- run with this outcome, also after a restart
);
CREATE INDEX IF NOT EXISTS control_outcomes_of_resource ON control_outcomes (resource_id, taken_by);

-- Number of polls of each resource that waits for polls.
CREATE TABLE IF NOT EXISTS control_polls (
    phase TEXT NOT NULL,
    run TEXT NOT NULL,
    seen INTEGER NOT NULL,
    PRIMARY KEY (phase, run)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS control_vanished (run_id TEXT PRIMARY KEY) WITHOUT ROWID;
