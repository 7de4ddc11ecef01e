"""The scheduler examples of docs/fleet.md parse, and call drive with options that exist."""

import re
from pathlib import Path

import yaml

from data_engine.config import MineConfig
from data_engine.rules.sql import SqlRule, check_sql
from drive.cli.main import build_parser
from drive.cli.nightly import EXIT_CODES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "fleet.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_yaml_block_parses_and_the_python_one_compiles() -> None:
    kinds = [value.get("kind") for text in blocks("yaml") for value in yaml.safe_load_all(text)]
    assert {"CronJob", "CronWorkflow"} <= set(kinds)
    for code in blocks("python"):
        compile(code, "fleet.md", "exec")


def test_every_nightly_command_has_known_options() -> None:
    known = {option for action in build_parser("nightly")._actions for option in action.option_strings}
    commands = re.findall(r"drive nightly (--[^;>\n\"]*)", PAGE)
    assert len(commands) >= 5
    for command in commands:
        assert set(re.findall(r"--[a-z-]+", command)) <= known, command


def test_the_exit_codes_are_those_of_the_command() -> None:
    assert EXIT_CODES == {"promoted": 0, "refused": 20, "nothing to do": 21}
    assert "| 20, 21 | refused; nothing to do |" in PAGE


def test_the_rule_in_the_page_is_a_right_query() -> None:
    rules = [yaml.safe_load(text)["mine"]["sql"] for text in blocks("yaml") if text.startswith("mine:")]
    made = {name: SqlRule(**rule) for rule in rules for name, rule in rule.items()}
    check_sql(MineConfig(sql=made).sql)
    assert made
