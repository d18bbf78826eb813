"""Tests of YAML files with excessive or recursive aliases: they are errors with a line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_provider_datapipe.cli.program import main
from datapipe_local.cli.program import main as local

pytestmark = pytest.mark.slow

#: Ten to the power of nine mappings, and as many lists.
MERGE_BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 10)
)
LIST_BOMB = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10))
MERGE_CHAIN = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: *a{n - 1}}}\n" for n in range(1, 1200))

#: YAML text, and the line of the error in workspaces and seeds.
ENDLESS = {
    "merge_into_itself": ("x: 1\na: &a {<<: *a}\n", 2),
    "merge_into_itself_by_another": ("x: 1\na: &a\n  b: &b {<<: *a}\n", 3),
    "list_in_itself": ("x: 1\na: &a [*a]\n", 2),
    "mapping_in_itself": ("x: 1\na: &a\n  b: *a\n", 2),
    "deep_lists": ("x: 1\na: " + "[" * 2000 + "]" * 2000, 2),
    "deep_mappings": ("x: 1\na: " + "{b: " * 2000 + "1" + "}" * 2000, 2),
    "chain_of_merges": (MERGE_CHAIN, None),
}


def plan(*options: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the command plan. It reads the file before it sends a request."""
    monkeypatch.setenv("DATAPIPE_API_KEY", "secret-of-the-account")
    return main(["plan", "--base-url", "http://127.0.0.1:9", "--quiet", *options])


@pytest.mark.parametrize("name", [*ENDLESS, "bomb_of_merges", "bomb_of_lists"])
def test_workspace_without_an_end_is_an_error_with_its_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bombs = {"bomb_of_merges": (MERGE_BOMB, None), "bomb_of_lists": (LIST_BOMB, None)}
    text, line = (ENDLESS | bombs)[name]
    file = tmp_path / "workspace.yaml"
    file.write_text(text)
    assert plan("--workspace", str(file), monkeypatch=monkeypatch) == 1
    place = rf"workspace\.yaml:{line or '[0-9]+'}:\d+"
    assert re.search(rf"{place}: .*(nested too deep|into itself|more than 200,000)", capsys.readouterr().err)


@pytest.mark.parametrize("name", ENDLESS)
def test_seed_without_an_end_is_an_error_with_its_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, line = ENDLESS[name]
    file = tmp_path / "seed.yaml"
    file.write_text(text)
    assert local(["init", "--home", str(tmp_path / "home"), "--seed", str(file)]) != 0
    place = rf"seed\.yaml, line {line or '[0-9]+'}"
    assert re.search(rf"{place}: .*(nested too deep|into itself)", capsys.readouterr().err)


@pytest.mark.parametrize("name", [*ENDLESS, "bomb_of_lists"])
def test_front_matter_without_an_end_is_an_error_with_its_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, line = (ENDLESS | {"bomb_of_lists": (LIST_BOMB, None)})[name]
    (tmp_path / "models").mkdir()
    comments = "".join(f"-- {each}\n" for each in text.splitlines())
    (tmp_path / "models" / "orders.sql").write_text(f"-- ---\n{comments}-- ---\nSELECT 1\n")
    assert plan("--transforms", str(tmp_path / "models"), monkeypatch=monkeypatch) == 1
    # The first line of the file is the marker of the front matter.
    place = rf"orders\.sql, line {line + 1 if line else '[0-9]+'}"
    problem = "nested too deep|<< is not supported|more than 10,000 values"
    assert re.search(rf"{place}: .*({problem})", capsys.readouterr().err)
