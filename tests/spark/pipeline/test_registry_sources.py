"""The version of a schema with which a pipeline's source is read, from one start to the next."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pk.core.schemas.schema import Schema
from pk.net.schemas.blocking import Schemas
from pk.spark.pipeline.definition import WrongPipeline, parse_pipeline
from pk.spark.pipeline.document import Position, Problem
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.query import Query
from pk.spark.pipeline.registry_sources import Plan, RegistryVersions

KAFKA = {"kafka.bootstrap.servers": "localhost:1"}
LATEST = {"orders": {"schema.on.new.version": "fail"}}
FILE = """
name = "p"
checkpoint = "cp"
schema = "{schema}"
[schema_registry]
url = "{url}"
[[source]]
name = "orders"
topic = "orders"
{formats}
options = {{ {options} }}
[[sink]]
from = "orders"
topic = "out"
"""


def order(**fields: str) -> Schema:
    named = [{"name": name, "type": each, "default": None} for name, each in fields.items()]
    for each in named:
        each["type"] = ["null", each["type"]]  # type: ignore[assignment]
    return Schema(json.dumps({"type": "record", "name": "Order", "fields": named}))


class World:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.schemas = Schemas(str(directory / "registry"))
        (directory / "registry").mkdir()

    def add(self, _column: str = "value", **fields: str) -> None:
        # A directory checks as a server does, and an incompatible version comes all the same.
        folder = self.directory / "registry" / f"orders-{_column}"
        folder.mkdir(exist_ok=True)
        number = len(list(folder.iterdir())) + 1
        (folder / f"v{number}-id{number}.avsc").write_text(order(**fields).text)

    def start(
        self,
        schema: str = "evolve",
        options: str = "",
        formats: str = 'value = "avro"',
        plan: Plan = lambda _: [],
        say: Callable[[str], None] = lambda _: None,
    ) -> dict[str, dict[str, str]]:
        """The version that a start of the pipeline chooses and keeps."""
        url = self.directory / "registry"
        text = FILE.format(schema=schema, url=url, options=options, formats=formats)
        pipeline = parse_pipeline(text, str(self.directory / "p.toml"))
        (self.directory / "cp" / "pk").mkdir(parents=True, exist_ok=True)
        versions = RegistryVersions(pipeline, Places(pipeline), KAFKA)
        found = versions.options(plan, say)
        versions.remember()
        return found


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_evolve_takes_over_what_is_wider(world: World) -> None:
    world.add(id="long")
    assert world.start() == LATEST
    world.add(id="long", item="string")
    assert world.start() == LATEST
    world.add(item="string")  # a column is gone
    assert world.start() == {"orders": {"value.schema.version": "2"}}
    world.add(id="string", item="string")  # and here it has another type
    assert world.start() == {"orders": {"value.schema.version": "2"}}
    world.add(id="long", item="string", price="double")
    assert world.start() == LATEST


def test_fixed_stays_at_the_first_runs_version(world: World) -> None:
    world.add(id="long")
    assert world.start("fixed") == {"orders": {"value.schema.version": "1"}}
    world.add(id="long", item="string")
    assert world.start("fixed") == {"orders": {"value.schema.version": "1"}}


def test_a_version_that_the_file_names_counts(world: World) -> None:
    world.add(id="long")
    world.add(id="long", item="string")
    assert world.start(options="'value.schema.version' = 1") == {"orders": {}}


def test_keys_and_values_have_a_version_each(world: World) -> None:
    both = 'value = "avro"\nkey = "avro"'
    world.add(id="long")
    world.add("key", shop="long")
    assert world.start(formats=both) == LATEST
    world.add("key", shop="string")  # another type
    assert world.start(formats=both) == {
        "orders": {"schema.on.new.version": "fail", "key.schema.version": "1"}
    }
    world.add("key", shop="long", city="string")
    assert world.start(formats=both) == LATEST
    assert world.start("fixed", formats=both) == {
        "orders": {"value.schema.version": "1", "key.schema.version": "3"}
    }


def test_problems_of_keys_have_their_place(world: World) -> None:
    world.add(id="long")
    with pytest.raises(WrongPipeline, match=r"p\.toml:11:1: Subject 'orders-key' not found"):
        world.start(formats='value = "avro"\nkey = "avro"')
    with pytest.raises(WrongPipeline, match=r"key, value, on_error and schema set key\.format"):
        world.start(options="'key.format' = 'json'")


def test_problems_have_their_place(world: World) -> None:
    with pytest.raises(WrongPipeline, match=r"p\.toml:10:1: Subject 'orders-value' not found"):
        world.start()
    world.add(id="long")
    with pytest.raises(WrongPipeline, match=r"key, value, on_error and schema set value\.format"):
        world.start(options="'value.format' = 'json'")


def test_wider_numbers_of_avro_are_used_if_the_queries_take_them(world: World) -> None:
    def start(refusal: str | None) -> dict[str, dict[str, str]]:
        tried: list[Mapping[str, Mapping[str, str]]] = []

        def plan(given: Mapping[str, Mapping[str, str]]) -> list[Query]:
            tried.append(given)
            if refusal is not None and len(tried) == 2:
                raise WrongPipeline("p.toml", [Problem(Position(1, 1), refusal)])
            return []

        said.clear()
        return world.start(plan=plan, say=said.append)

    said: list[str] = []
    world.add(id="int", price="float", n="int")
    assert start("no")["orders"] == LATEST["orders"]
    world.add(id="long", price="double", n="double")
    kept = {"orders": {"value.schema.version": "1"}}
    assert start("the sink says no") == kept
    assert said == [
        (
            "orders: version 2 of the value's schema is not used, because it has wider numbers: the"
            " sink says no."
        )
    ]
    assert start(None) == LATEST and said == []
    assert start("nobody is asked again") == LATEST
    world.add(id="double", price="double", n="double")  # which would round
    assert start(None) == {"orders": {"value.schema.version": "2"}}
