-- Triggers that keep the journal of runs, in the transaction of each change.
-- They are temporary, so that a service without the control plane has none of them.

CREATE TEMP TRIGGER journal_job_added AFTER INSERT ON main.jobs
-- A query preview is not a run. The trigger below inserts the row of a publication.
WHEN NEW.kind <> 'query_preview' AND (
    NEW.kind <> 'materialization' OR NEW.orchestration_run_id IS NOT NULL OR NOT EXISTS (
        SELECT 1 FROM journal_runs WHERE kind = 'transform' AND resource_id = NEW.subject_id AND finished_at IS NULL))
BEGIN
    INSERT INTO journal_runs (kind, resource_id, trigger, request, orchestration_run_id, requested_at, status, job)
    VALUES (
        CASE NEW.kind WHEN 'elt_stream_run' THEN 'elt_stream' WHEN 'reverse_etl_sync_run' THEN 'reverse_etl'
            WHEN 'materialization' THEN 'transform' ELSE NEW.kind END,
        NEW.subject_id,
        CASE WHEN NEW.orchestration_run_id IS NOT NULL THEN 'orchestration'
            WHEN journal_request() IS NOT NULL THEN 'request' ELSE 'schedule' END,
        journal_request(), NEW.orchestration_run_id, journal_now(), 'SCHEDULED', NEW.seq);
END;

CREATE TEMP TRIGGER journal_run_begun AFTER UPDATE OF run_id ON main.jobs
WHEN NEW.run_id IS NOT NULL AND NEW.run_id IS NOT OLD.run_id
BEGIN
    UPDATE journal_runs SET run_id = NEW.run_id, started_at = journal_now(), status = 'RUNNING'
    WHERE job = NEW.seq AND finished_at IS NULL AND run_id IS NULL;
END;

-- After a slice of a load, the job continues with another run.
CREATE TEMP TRIGGER journal_run_continued AFTER UPDATE OF run_id ON main.jobs
WHEN NEW.run_id IS NULL AND OLD.run_id IS NOT NULL
    AND EXISTS (SELECT 1 FROM journal_runs WHERE run_id = OLD.run_id)
BEGIN
    INSERT INTO journal_runs (kind, resource_id, trigger, request, orchestration_run_id, requested_at, status, job)
    SELECT kind, resource_id, 'continuation', request, orchestration_run_id, journal_now(), 'SCHEDULED', NEW.seq
    FROM journal_runs WHERE run_id = OLD.run_id;
END;

CREATE TEMP TRIGGER journal_building AFTER UPDATE OF begun ON main.jobs
WHEN NEW.kind = 'materialization' AND NEW.begun
BEGIN
    UPDATE journal_runs SET started_at = coalesce(started_at, journal_now()), status = 'running'
    WHERE kind = 'transform' AND resource_id = NEW.subject_id AND finished_at IS NULL;
END;

CREATE TEMP TRIGGER journal_job_gone AFTER DELETE ON main.jobs
BEGIN
    -- The transform contains the outcome of a materialization, which has no run of its own. Publications during
    -- an older build end together with it.
    UPDATE journal_runs SET finished_at = journal_now(), status = coalesce(
        (SELECT iif(materialization_error IS NULL, 'completed', 'failed') FROM transforms WHERE id = OLD.subject_id),
        'GONE')
    WHERE OLD.kind = 'materialization' AND kind = 'transform' AND resource_id = OLD.subject_id
        AND finished_at IS NULL;
    -- The outcome of other runs was recorded before, unless the resource was deleted.
    UPDATE journal_runs SET finished_at = journal_now(), status = 'GONE' WHERE job = OLD.seq AND finished_at IS NULL;
END;

CREATE TEMP TRIGGER journal_published AFTER UPDATE OF publication ON main.transforms
WHEN NEW.publication <> OLD.publication
BEGIN
    INSERT INTO journal_runs
        (kind, resource_id, trigger, request, requested_at, started_at, finished_at, status)
    VALUES ('transform', NEW.id, iif(journal_request() IS NULL, 'seed', 'request'), journal_request(), journal_now(),
        journal_now(), iif(NEW.materialization = 'view', journal_now(), NULL),
        iif(NEW.materialization = 'view', 'completed', 'running'));
END;

CREATE TEMP TRIGGER journal_stream_run_ended AFTER UPDATE OF finished_at ON main.elt_stream_runs
WHEN NEW.finished_at IS NOT NULL
BEGIN
    UPDATE journal_runs SET finished_at = NEW.finished_at, status = NEW.status WHERE run_id = NEW.id;
END;

CREATE TEMP TRIGGER journal_reverse_run_ended AFTER UPDATE OF finished_at ON main.reverse_etl_sync_runs
WHEN NEW.finished_at IS NOT NULL
BEGIN
    UPDATE journal_runs SET finished_at = NEW.finished_at, status = NEW.status WHERE run_id = NEW.id;
END;

CREATE TEMP TRIGGER journal_orchestration_run_added AFTER INSERT ON main.orchestration_runs
BEGIN
    INSERT INTO journal_runs (kind, resource_id, run_id, trigger, request, requested_at, status)
    VALUES ('orchestration', NEW.orchestration_id, NEW.id, iif(journal_request() IS NULL, 'schedule', 'request'),
        journal_request(), journal_now(), NEW.status);
END;

CREATE TEMP TRIGGER journal_orchestration_run_changed AFTER UPDATE OF status ON main.orchestration_runs
BEGIN
    UPDATE journal_runs SET started_at = NEW.started_at, finished_at = NEW.finished_at, status = NEW.status
    WHERE run_id = NEW.id;
END;

CREATE TEMP TRIGGER journal_orchestration_run_gone AFTER DELETE ON main.orchestration_runs
BEGIN
    UPDATE journal_runs SET finished_at = journal_now(), status = 'GONE' WHERE run_id = OLD.id AND finished_at IS NULL;
END;
