"""Tests of the distribution: its files, and the installation of the README in an empty environment."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.packaging.installed import PROJECT, Distribution, Installed, build, fresh, install, requirement, uv
from tests.packaging.versions import airflow_in, airflows, pins_of_this_environment, pythons
from tests.support.airflow_versions import older_than
from tests.support.documents import ROOT

pytestmark = pytest.mark.slow


#: Imports all modules and classes of the provider info, and prints their names.
IMPORT_ALL = """
import importlib, importlib.metadata, json
points = importlib.metadata.distribution("airflow-provider-datapipe").entry_points
(point,) = points.select(group="apache_airflow_provider")
def names(value):
    if isinstance(value, dict):
        for entry in value.values():
            yield from names(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from names(entry)
    elif isinstance(value, str) and value.startswith("airflow_provider_datapipe."):
        yield value
names_of_info = sorted(set(names(point.load()())))
for name in names_of_info:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        # The name of a class.
        module, _, attribute = name.rpartition(".")
        getattr(importlib.import_module(module), attribute)
print(json.dumps(names_of_info))
"""


#: Imports all modules of a package, and prints their number and the import errors.
IMPORT_EACH = """
import importlib, json, pkgutil, sys
failed, count, left = {}, 0, [sys.argv[1]]
while left:
    name = left.pop()
    count += 1
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        failed[name] = f"{type(error).__name__}: {error}"
    else:
        left += [f"{name}.{one.name}" for one in pkgutil.iter_modules(getattr(module, "__path__", []))]
print(json.dumps([count, failed]))
"""
DOCUMENTATION_URL = "https://docs.example.com/datapipe/"
#: Prints the metadata of the distribution.
METADATA = """
import importlib.metadata, json
print(json.dumps(importlib.metadata.metadata("airflow-provider-datapipe").json))
"""


def import_provider_info(installed: Installed) -> list[str]:
    done = installed.run("python", "-c", IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    reported: list[str] = json.loads(done.stdout.splitlines()[-1])
    return reported


def import_modules(package: str, installed: Installed) -> tuple[int, dict[str, str]]:
    """Import all modules. Return their number, and the errors of those that fail."""
    done = installed.run("python", "-W", "ignore", "-c", IMPORT_EACH, package)
    assert done.returncode == 0, done.stderr
    count, failed = json.loads(done.stdout.splitlines()[-1])
    return count, failed


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("DOCUMENTATION_URL", DOCUMENTATION_URL)
        return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fresh(tmp_path_factory.mktemp("environment") / "venv")


@pytest.fixture(scope="module")
def alone(built: Distribution, empty: Path) -> Installed:
    return install(requirement("README.md", extra=""), built, empty)


#: Providers of a deployment with several machines: CeleryExecutor, and users with roles.
DEPLOYMENT = ("apache-airflow-providers-celery", "apache-airflow-providers-fab")


#: Release day of each pinned Airflow. Airflow publishes constraints with the newest versions of that day, but not on
#: the package index, so that a test resolves these versions itself.
RELEASED = {"3.1.8": "2026-03-11", "3.2.2": "2026-05-29", "3.3.2": "2026-09-17"}
#: Further packages of the published constraints that our extras need.
PUBLISHED = ("apache-airflow-providers-http", "apache-airflow-providers-openlineage", "duckdb", "psycopg", "pyarrow")
EXTRAS = ("local", "postgresql", "parquet", "sql", "openlineage")
PINS = [pytest.param(file, id=file.name) for file in airflows().values()]


def resolve(folder: Path, wanted: Sequence[str], *options: str | Path) -> dict[str, str]:
    """Return the versions to which requirements resolve, by the names of the packages."""
    requirements, resolved = folder / "requirements.in", folder / "requirements.txt"
    requirements.write_text("\n".join(wanted))
    plain = ("--quiet", "--no-header", "--no-annotate", "--python", sys.executable)
    uv("pip", "compile", *plain, *options, "--output-file", resolved, requirements)
    return dict(line.split("==") for line in resolved.read_text().splitlines() if "==" in line)


@pytest.mark.parametrize("pins", PINS)
def test_pins_resolve_with_the_celery_and_fab_providers(pins: Path, tmp_path: Path) -> None:
    versions = resolve(tmp_path, DEPLOYMENT, "--all-extras", "-c", pins, ROOT / "pyproject.toml")
    assert set(DEPLOYMENT) <= versions.keys()
    assert versions["apache-airflow"] == str(airflow_in(pins))


@pytest.mark.parametrize("pins", PINS)
def test_bounds_allow_the_versions_of_the_release_day_of_airflow(pins: Path, tmp_path: Path) -> None:
    airflow = str(airflow_in(pins))
    wanted = [f"apache-airflow=={airflow}", *DEPLOYMENT, *PUBLISHED]
    if pins.name != "constraints-3.1.txt":
        # The version of that day does not trace all columns at once.
        wanted.append("sqlglot")
    published = resolve(tmp_path, wanted, "--exclude-newer", RELEASED[airflow])
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in published.items()))
    extras = (option for extra in EXTRAS for option in ("--extra", extra))
    versions = resolve(tmp_path, wanted, *extras, "-c", constraints, ROOT / "pyproject.toml")
    assert versions.items() >= published.items()


def test_provider_without_extras(alone: Installed) -> None:
    reported = import_provider_info(alone)
    assert "airflow_provider_datapipe.hooks.datapipe.DatapipeHook" in reported
    assert "airflow_provider_datapipe.operators.elt_syncs" in reported
    assert alone.run("python", "-c", "import duckdb").returncode == 1
    # Without the extra, the command of the local service names the extra.
    assert alone.run("datapipe-local", "--help").returncode == 0
    refused = alone.run("datapipe-local", "init", "--home", "home")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "datapipe-local: duckdb is not installed: pip install 'airflow-provider-datapipe[local]'\n"
    )


def test_provider_modules_load_without_extras(alone: Installed) -> None:
    count, failed = import_modules("airflow_provider_datapipe", alone)
    assert count > 150
    # These modules are loaded only with OpenLineage.
    lineage = {name for name in failed if name.startswith("airflow_provider_datapipe.lineage.")}
    assert all("openlineage" in failed[name] for name in lineage), failed
    too_new = {"airflow_provider_datapipe.retries"} if older_than("3.3") else set()
    assert failed.keys() - lineage == too_new, failed


def test_local_modules_fail_only_for_packages_of_the_extra(alone: Installed) -> None:
    _, failed = import_modules("datapipe_local", alone)
    # Airflow depends on the rest of the extra. Only pytest loads the plugin.
    assert failed.pop("datapipe_local.testing.plugin") == "ModuleNotFoundError: No module named 'pytest'"
    assert set(failed.values()) == {"ModuleNotFoundError: No module named 'duckdb'"}


def test_fixture_without_the_extra_names_it_and_pytest_works(
    built: Distribution, alone: Installed, tmp_path: Path
) -> None:
    uv("pip", "install", "--quiet", "--python", alone.programs / "python", "-c", pins_of_this_environment(), "pytest")
    file = tmp_path / "test_extra.py"
    file.write_text("def test_without(): pass\ndef test_with(datapipe_local): pass\n")
    done = alone.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file))
    assert "1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "duckdb is not installed: pip install 'airflow-provider-datapipe[local]'" in done.stdout


def test_provider_with_the_local_service(built: Distribution, alone: Installed) -> None:
    (what,) = {requirement(page, extra="[local]") for page in ("README.md", "docs/local.md")}
    both = install(what, built, alone.programs.parent)
    assert import_provider_info(both)
    helped = both.run("datapipe-local", "--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert all(command in helped.stdout for command in ("init", "serve"))
    # The package contains the data files that this command reads.
    done = both.run("datapipe-local", "init", "--home", "home")
    assert (done.returncode, done.stderr) == (0, "")
    assert both.run("python", "-m", "uv", "--version").returncode == 1


def test_distribution_passes_twine_check(built: Distribution) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - distribution of this repository
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def test_metadata_of_the_wheel(alone: Installed) -> None:
    done = alone.run("python", "-c", METADATA)
    metadata = json.loads(done.stdout)
    named = (metadata["name"], metadata["license_expression"], metadata["license_file"])
    assert named == (PROJECT, "Apache-2.0", "LICENSE")
    assert metadata["requires_python"] == f">={pythons()[0]}"
    assert {f"Programming Language :: Python :: {version}" for version in pythons()} <= set(metadata["classifier"])
    assert metadata["description"] == (ROOT / "README.md").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(metadata["provides_extra"]) == extras.keys()


def test_documentation_address_in_the_wheel(alone: Installed) -> None:
    (address,) = json.loads(alone.run("python", "-c", METADATA).stdout)["project_url"]
    # Airflow ignores the case of the label.
    assert address == f"Documentation, {DOCUMENTATION_URL}"


def test_wheel_without_a_documentation_address(tmp_path: Path) -> None:
    with zipfile.ZipFile(build(tmp_path).wheel) as wheel:
        (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        assert "Project-URL" not in wheel.read(metadata).decode()


def test_commands_and_provider_are_installed(alone: Installed) -> None:
    for program in ("datapipe", "datapipe-local"):
        done = alone.run(program, "--help")
        assert (done.returncode, done.stderr) == (0, ""), program
        assert done.stdout.startswith(f"usage: {program} ")
    done = alone.run("airflow", "providers", "list", "--output", "json")
    providers = json.loads(done.stdout[done.stdout.index("[{") :])
    assert {each["package_name"]: each["version"] for each in providers}[PROJECT] == "0.1.0"


def test_files_of_the_wheel(built: Distribution) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"airflow_provider_datapipe", "datapipe_local"}
    source = ROOT / "src"
    files = [path.relative_to(source) for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert {path.as_posix() for path in files} <= names
    assert {"airflow_provider_datapipe/py.typed", "datapipe_local/py.typed"} <= names
    # Files of the authorization page.
    assert {Path(name).suffix for name in names if name.startswith("datapipe_local/")} >= {".html", ".js", ".css"}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_files_of_the_source_distribution(built: Distribution) -> None:
    with tarfile.open(built.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    needed = {"README.md", "LICENSE", "CHANGELOG.md", "Makefile", "pyproject.toml", "docs/local.md"}
    assert needed | {file.name for file in airflows().values()} <= names
    assert [name for name in names if name.endswith(".pyc") or "_build/" in name] == []
