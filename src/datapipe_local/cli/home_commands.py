"""Operations on a home that no service uses: ``init``, ``reset``, ``export`` and ``query``."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from datapipe_local.cli import export_tables
from datapipe_local.common.errors import ServiceError, SetupError
from datapipe_local.seed.apply import Seeding
from datapipe_local.seed.document import Document
from datapipe_local.seed.export import export as export_seed
from datapipe_local.seed.reset import reset_service
from datapipe_local.services import templates
from datapipe_local.services.context import Context
from datapipe_local.services.references import Catalog
from datapipe_local.storage import write_failures
from datapipe_local.storage.clock import Clock
from datapipe_local.storage.store import Store
from datapipe_local.warehouse import previews
from datapipe_local.warehouse.warehouse import Warehouse, WarehouseError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path

    from datapipe_local.storage.home import Home
    from datapipe_local.warehouse.previews import Preview

_NAMES = {
    "connection": "connections",
    "orchestration": "orchestrations",
    "elt_sync": "ELT syncs",
    "elt_stream": "ELT streams",
    "custom_report": "custom reports",
    "transform": "transforms",
    "reverse_etl_sync": "reverse ETL syncs",
}


def initialise(home: Home, seed_file: Path | None, wanted_key: str | None) -> list[str]:
    """
    Create the missing parts of a home, and apply a seed.

    :param home: The home.
    :param seed_file: The seed; ``None`` applies none.
    :param wanted_key: The API key to use; ``None`` keeps the present one, or generates one.
    :return: Lines for the user about the result. They do not contain the key.
    :raises SetupError: the home cannot be created, or the seed cannot be applied. A seed is applied completely or not
        at all.
    """
    # Read the seed first: an unreadable seed leaves no home behind.
    document = None if seed_file is None else Document(seed_file)
    home.create()
    with home.locked():
        created = not home.is_initialised
        home.make_scratch()
        key_written = home.keep_key(wanted_key)
        with _opened(home) as context:
            done = [
                f"Home: {home.folder} ({'created' if created else 'already exists'})",
                f"API key: in {home.key_file} ({'written' if key_written else 'unchanged'})",
            ]
            if document is not None:
                seeding = Seeding(context, document)
                seeding.apply()
                done.append(f"Seed: {document.path} ({_summary(seeding.applied)})")
    return done


def reset(home: Home, *, keep_seed: bool) -> list[str]:
    """
    Empty a home, but keep its key.

    :param home: An initialized home.
    :param keep_seed: Apply all stored seeds again.
    :return: Lines for the user about the result.
    :raises SetupError: a service uses the home, or a seed can no longer be applied; the home is unchanged.
    """
    with home.locked():
        if keep_seed:
            home.make_scratch()
            with _opened(home) as context:
                with context.publishing, context.store.transaction():
                    seeds = reset_service(context, keep_seed=True)
                # Deleted data, including secrets, must not stay in the file.
                context.store.database.run("VACUUM")
            return [f"Reset: {home.folder}", f"Applied again: {seeds} seeds"]
        home.remove_state()
        with _opened(home):
            pass
    return [f"Reset: {home.folder}"]


def export(home: Home, seed_file: Path | None, tables_folder: Path | None, table_format: str) -> list[str]:
    """
    Export the content of a home.

    :param home: An initialized home.
    :param seed_file: A new file for the resources, as a seed; ``None`` writes none.
    :param tables_folder: A new or empty folder for the tables of the warehouse; ``None`` writes none.
    :param table_format: One of :data:`datapipe_local.cli.export_tables.FORMATS`.
    :return: Lines for the user about the result.
    :raises SetupError: a service uses the home, or a file cannot be written.
    """
    done = []
    with home.locked():
        home.make_scratch()
        with _opened(home) as context:
            if seed_file is not None:
                exported = export_seed(context)
                try:
                    with seed_file.open("x", encoding="utf-8") as file:
                        file.write(exported.text)
                except OSError as error:
                    failed = write_failures.failure(error)
                    if failed is not None:
                        # Remove the partial file: it would look complete, and block the next export.
                        seed_file.unlink(missing_ok=True)
                    reason = (error.strerror or error) if failed is None else f"{failed.reason}: {failed.advice}"
                    raise SetupError(f"Cannot write {seed_file}: {reason}.") from error
                done.append(f"Seed: {seed_file}")
                if exported.variables:
                    done.append(f"Set these variables for init, in place of secrets: {', '.join(exported.variables)}")
                if exported.drafts:
                    done.append(
                        "Exported as drafts, because their references must be loaded first:"
                        f" {exported.drafts} published transforms"
                    )
                if exported.left_out:
                    done.append(f"Left out, because their sources were deleted: {exported.left_out} reverse ETL syncs")
            if tables_folder is not None:
                files = export_tables.export(context.warehouse, tables_folder, table_format)
                done.append(f"Tables: {len(files)} files in {tables_folder}")
    return done


def preview(home: Home, sql: str, *, seconds: float) -> Preview:
    """
    Return the first rows of a query over the warehouse. The home does not change.

    :param home: An initialized home.
    :param sql: A query, which can contain references in double braces.
    :param seconds: The time limit, in seconds.
    :raises SetupError: a service uses the home, or the query is refused or fails.
    """
    with home.locked():
        home.make_scratch()
        with _opened(home) as context:
            try:
                templates.check("sql_template", sql)
                return previews.preview(context.warehouse, Catalog(context).resolve(sql), seconds=seconds)
            except ServiceError as error:
                raise SetupError(error.message) from error
            except WarehouseError as error:
                raise SetupError(str(error)) from error


@contextmanager
def _opened(home: Home) -> Iterator[Context]:
    context = Context(Store(home.state), Warehouse(home.warehouse, home.scratch), Clock())
    try:
        yield context
    finally:
        context.warehouse.close()
        context.store.close()


def _summary(applied: Counter[str]) -> str:
    counts = [f"{applied[kind]} {name}" for kind, name in _NAMES.items() if applied[kind]]
    return f"created or changed: {', '.join(counts)}" if counts else "nothing to change"
