"""Fault rules, and their choice for a request."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from datapipe_local.control.models import Fault
from datapipe_local.control.paths import matches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datapipe_local.control.paths import Interface
    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import Json


class Acting(NamedTuple):
    """Rule that acts on a request, and its position among the rules."""

    position: int
    rule: Fault

    def as_json(self) -> Json:
        """Return the entry for the journal."""
        return {"rule": self.position, "effect": self.rule.effect, "when": self.rule.moment, "delay": self.rule.delay}


class Faults:
    """
    Fault rules. They and their counts are in the store and survive a restart.

    :param context: The service.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._database = context.store.database

    def replace(self, rules: Sequence[Fault], interface: Interface) -> None:
        """
        Replace all rules.

        :raises BadRequestError: a rule can never act.
        """
        for rule in rules:
            interface.check(rule.method, rule.path)
        with self._context.store.transaction():
            self._database.run("DELETE FROM control_faults")
            self._database.run_many(
                "INSERT INTO control_faults (position, rule) VALUES (?, ?)",
                [(position, rule.model_dump_json(exclude_unset=True)) for position, rule in enumerate(rules)],
            )

    def as_json(self) -> list[Json]:
        """Return the rules, with the number of requests that each skipped (``passed``) and acted on (``acted``)."""
        return [
            {**_rule(row["rule"]).model_dump(exclude_unset=True), "passed": row["passed"], "acted": row["acted"]}
            for row in self._database.rows("SELECT rule, passed, acted FROM control_faults ORDER BY position")
        ]

    def matching_rule(self, method: str, path: str, resource_id: str | None) -> Acting | None:
        """
        Return the first rule that acts on a request, and count it. The caller holds a transaction.

        If a rule lets the request pass because of ``skip``, the rules after it are tried.
        """
        for row in self._database.rows("SELECT position, rule, passed, acted FROM control_faults ORDER BY position"):
            rule = _rule(row["rule"])
            if (
                rule.method not in {"*", method}
                or rule.resource_id not in {None, resource_id}
                or not matches(rule.path, path)
            ):
                continue
            if row["passed"] < rule.skip:
                self._count("passed", row["position"], 1)
            elif rule.times == "always" or row["acted"] < rule.times:
                self._count("acted", row["position"], 1)
                return Acting(row["position"], rule)
        return None

    def undo_count(self, acting: Acting) -> None:
        """Undo the count of a rule that had nothing to change."""
        self._count("acted", acting.position, -1)

    def _count(self, column: str, position: int, by: int) -> None:
        self._database.run(
            f"UPDATE control_faults SET {column} = {column} + ? WHERE position = ?",  # noqa: S608 - one of two words
            by,
            position,
        )


@lru_cache(maxsize=256)
def _rule(text: str) -> Fault:
    return Fault.model_validate_json(text)
