"""docs/evaluation.md leaves no column and no field out; docs/development.md names files that are there."""

from __future__ import annotations

import re
import subprocess
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from hopgraph.cli import app
from hopgraph.cluster import serving
from hopgraph.evaluation.data import Question
from hopgraph.evaluation.datasets import DATASETS, read_questions
from hopgraph.evaluation.summary import ALL_METRICS
from inference.settings import unknown_variables
from tests.installed.blocks import read_blocks

DOCS = Path(__file__).parents[1] / "docs"
EVALUATION = (DOCS / "evaluation.md").read_text()


@pytest.mark.parametrize("name", [name for name, metric in ALL_METRICS.items() if metric.places])
def test_every_column_of_the_result_tables_is_explained(name):
    legend = EVALUATION.partition("\n## Reading the tables\n")[2].partition("\n## ")[0]
    assert f"| `{ALL_METRICS[name].label}` | {ALL_METRICS[name].meaning} |" in legend


@pytest.mark.parametrize("name", DATASETS)
def test_every_dataset_is_listed(name):
    assert f"\n| `{name}` | {DATASETS[name].title} |" in EVALUATION


@pytest.mark.parametrize("field", [field.name for field in fields(Question)])
def test_every_field_of_a_question_is_in_the_table(field):
    table = EVALUATION.partition("\n## Your own questions\n")[2].partition("\n## ")[0]
    assert f"| `{'supporting_facts' if field == 'gold_sentences' else field}`" in table


def test_the_example_of_a_question_can_be_read(tmp_path):
    (tmp_path / "own.jsonl").write_text(re.search(r"```json\n(.*?)```", EVALUATION, re.DOTALL)[1])
    [question] = read_questions(tmp_path / "own.jsonl")
    assert question.gold_sentences[1] == ("The Silent Harbour: Ann Lee", 1)
    assert [step.answer for step in question.decomposition] == ["Ann Lee", "Paris"]


DEVELOPMENT = (DOCS / "development.md").read_text()


def test_adding_takes_at_most_four_files():
    sections = re.findall(r"^## Add an? ([^\n]+)\n(.*?)(?=^## |\Z)", DEVELOPMENT, re.DOTALL | re.MULTILINE)
    assert [name for name, _ in sections] == ["method", "role", "metric", "dataset", "store"]
    for name, text in sections:
        assert 1 <= len(re.findall(r"^\d\. ", text, re.MULTILINE)) <= 4, name


def test_the_development_page_names_files_that_exist():
    named = re.findall(r"`([a-z_]+/[A-Za-z_/.]*)`", DEVELOPMENT)
    assert len(named) > 30
    shared = {"nodes/ROLE.py": "nodes/router.py"}
    for name in named:
        path = shared.get(name) or name.replace("METHOD", "prism").replace("ID", "prism").replace("ROLE", "adder")
        assert (DOCS.parent / path).exists(), name


def test_every_folder_of_the_project_is_a_layer_of_the_map():
    rows = re.findall(r"^\| (?:`training/`, )?`([a-z]+)/", DEVELOPMENT, re.MULTILINE)
    packages = {path.parent.name for path in DOCS.parent.glob("*/__init__.py")} - {"tests"}
    assert packages <= {*rows, "training"}


CLUSTER = read_blocks(DOCS / "cluster.md")


@pytest.mark.parametrize("block", [block for block in CLUSTER if block.language == "sh"], ids=lambda block: block.place)
def test_scripts_of_the_cluster_page_are_shell_and_use_options_that_exist(block):
    subprocess.run(["sh", "-n"], input=block.code, text=True, check=True)
    for line in block.code.replace("\\\n", " ").splitlines():
        for name, rest in re.findall(r"hopgraph ([a-z]+) (.*)", line):
            known = {option for param in get_command(app).commands[name].params for option in param.opts}
            assert set(re.findall(r"(?<=\s)--[a-z-]+", f" {rest}")) <= known


YAML = {block.notes["file"]: block for block in CLUSTER if block.language == "yaml"}
COMPOSE = yaml.safe_load(YAML["compose.yaml"].code)


@pytest.mark.parametrize("block", [YAML["eval.yaml"]], ids=lambda b: b.place)
def test_manifests_of_the_cluster_page_are_yaml_and_their_commands_shell(block):
    for manifest in yaml.safe_load_all(block.code):
        assert {"apiVersion", "kind", "metadata", "spec"} <= set(manifest)
        for container in manifest["spec"]["template"]["spec"]["containers"]:
            for script in container.get("args", []):
                subprocess.run(["sh", "-n"], input=script, text=True, check=True)


def test_the_compose_file_names_what_it_defines():
    """Its form was checked by the Compose specification's schema, and the Caddyfile by `caddy validate`."""
    services = COMPOSE["services"]
    assert {"replica-1", "replica-2", "balancer", "vllm", "postgres", "chroma"} == set(services)
    used = {volume.partition(":")[0] for service in services.values() for volume in service.get("volumes", [])}
    assert used == set(COMPOSE["volumes"])
    for service in services.values():
        assert set(service.get("depends_on", [])) <= set(services)
        for name, how in dict(service["depends_on"] if "replica" in str(service.get("command")) else {}).items():
            assert how["condition"] != "service_healthy" or "healthcheck" in services[name]
        assert {config["source"] for config in service.get("configs", [])} <= set(COMPOSE["configs"])
    for replica in ("replica-1", "replica-2"):
        assert f"{replica}:8080" in COMPOSE["configs"]["caddyfile"]["content"]


def test_a_replica_of_the_compose_file_has_a_command_and_variables_that_exist(monkeypatch):
    replica = COMPOSE["services"]["replica-1"]
    program, name, *words = replica["command"]
    assert program == "hopgraph"
    command = get_command(app).commands[name]
    assert command.make_context(name, list(words)).params["port"] == 8080
    for variable in replica["environment"]:
        monkeypatch.setenv(variable, "postgresql://a:b@postgres/c")
    assert unknown_variables() == []
    assert replica["environment"]["HOPGRAPH_CHROMA_URL"] == "http://chroma:8000"
    script = replica["healthcheck"]["test"][-1]
    compile(script, "healthcheck", "exec")
    assert "/health" in script


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")
def test_the_ray_serve_configuration_has_the_form_and_the_arguments_that_exist():
    schema = pytest.importorskip("ray.serve.schema", reason="needs Ray Serve (extra cluster-serve)")
    given = yaml.safe_load(YAML["serve.yaml"].code)
    config = schema.ServeDeploySchema.model_validate(given)
    for model, row in ((config, given), (config.http_options, given["http_options"])):
        assert set(row) <= set(type(model).model_fields)  # Serve ignores unknown ones
    (application,) = config.applications
    module, _, name = application.import_path.partition(":")
    assert getattr(import_module(module), name) is serving.app
    assert serving.Arguments.model_validate(application.args).replicas == application.args["replicas"]
    section = (DOCS / "cluster.md").read_text().partition("\n## Ray Serve\n")[2]
    assert f"{serving.GRACE:.0f} s (`graceful_shutdown_timeout_s`)" in section
    for name in serving.Arguments.model_fields:
        assert f"`{name}`" in section
