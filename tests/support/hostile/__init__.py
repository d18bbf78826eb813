"""
Hostile implementation of the service's interface, for tests.

It follows the interface description only, and shares no code with ``datapipe_local`` or with the provider
(tests/contract/faults/test_hostile_service.py checks that). A test reads the truth in-process: the journal of requests
(``service.journal``) and the runs that requests really started (``service.runs_of``).

    service = Service(Faults(lags=(0.0, 3.0)))
    service.add("orchestration", "nightly", plans=(Plan(duration=0.2),), faults=Faults(planned=1))
    with HostileServer(service) as server:
        ...  # server.url, server.api_key

All times are those of ``time.time()``: short runs in real time, or any runs in simulated time
(``tests/support/simulated_time.py``).
"""

from tests.support.hostile.faults import Faults, Glitch, Loss, Plan, Response, Window
from tests.support.hostile.server import PROXY_PASSWORD, HostileServer
from tests.support.hostile.service import API_KEY, Entry, Service
from tests.support.hostile.state import Kind, Resource, Run

__all__ = [
    "API_KEY",
    "PROXY_PASSWORD",
    "Entry",
    "Faults",
    "Glitch",
    "HostileServer",
    "Kind",
    "Loss",
    "Plan",
    "Resource",
    "Response",
    "Run",
    "Service",
    "Window",
]
