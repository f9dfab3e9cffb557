"""The OpenAPI document of the JSON API: npm's validator accepts it, it has all routes, and its examples work."""

import json
import os
import re
import urllib.parse

import pytest

import harness
import node
import pg
from api_client import Api, add_token

HERE = os.path.join(pg.TOP, "tests", "http", "openapi")


def place(*names):
    """A JSON pointer, as it stands in a reference."""
    return "".join("/" + urllib.parse.quote(n.replace("~", "~0").replace("/", "~1"), safe="~") for n in names)


def wrong(db, document, bodies):
    folder = node.install("openapi", HERE)
    node.scripts(folder, HERE)
    done = db.run(
        [node.NODE, os.path.join(folder, "check.mjs")], input=json.dumps({"document": document, "bodies": bodies})
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def api(f, db):
    client = Api(f, add_token(db, "ci", "--may", "defer,read,control,work"))
    yield client
    client.close()


def document(api):
    got = api.call("GET", "/v1/openapi.json", token="")
    assert (got.status, got.header("content-type")) == (200, "application/json")
    with open(os.path.join(pg.TOP, "bin", "deferred_http", "api", "openapi.json")) as file:
        assert got.json == json.load(file)
    return got.json


def test_the_document_is_openapi_and_the_validator_notices_errors(api, db):
    doc = document(api)
    assert doc["openapi"].startswith("3.1.") and wrong(db, doc, []) == ""
    doc["paths"]["/v1/jobs"]["post"]["responses"] = 7
    assert wrong(db, doc, []).startswith("document:")


def test_the_document_has_all_routes(api):
    with open(os.path.join(pg.TOP, "bin", "deferred_http", "protocol", "route.c")) as file:
        table = re.findall(r"(?:VERB_(\w+)|(READ)), [^\n}]*\}, \"([^\"]+)\"", file.read().replace("\n\t  ", " "))
    routes = {(verb.lower() or "get", "/v1/" + re.sub(r"\*", "{}", path)) for verb, _, path in table}
    described = {
        (method, re.sub(r"\{\w+\}", "{}", path)) for path, item in document(api)["paths"].items() for method in item
    }
    assert described == routes and len(routes) > 15


class Examples:
    """Sends the examples of the document, each to a job in the state that it needs."""

    def __init__(self, api, doc):
        self.api, self.doc, self.bodies = api, doc, []

    def resolve(self, value):
        return self.resolve(value_at(self.doc, value["$ref"])) if "$ref" in value else value

    def claimed(self):
        job, held = self.api.defer(), []

        def claim():
            held.extend(self.api.call("POST", "/v1/claim", {"functions": ["echo"], "max": 1000}).json["jobs"])
            return next((j for j in held if j["id"] == job), None)

        return harness.wait_for(claim, what="a claim of the job")

    def path(self, path, params, operation):
        """With a job of its own, and that job's receipt."""
        receipt = None
        if "{id}" in path:
            if path.count("/") > 3 and not path.endswith("/retry"):
                job = self.claimed()
                path, receipt = path.replace("{id}", str(job["id"])), job["receipt"]
            else:
                path = path.replace("{id}", str(self.api.defer(delay="1h")))
        for p in params:
            if p["in"] == "path" and p["name"] != "id":
                path = path.replace("{" + p["name"] + "}", p["example"])
        query = {p["name"]: p["example"] for p in params if p["in"] == "query"}
        return path + ("?" + urllib.parse.urlencode(query) if query else ""), receipt

    def run(self, path, method, operation):
        params = [self.resolve(p) for p in operation.get("parameters", [])]
        content = operation.get("requestBody", {}).get("content", {None: {"examples": {"none": {"value": None}}}})
        for kind, media in content.items():
            for name, example in media["examples"].items():
                target, receipt = self.path(path, params, operation)
                value = example["value"]
                if isinstance(value, dict) and "receipt" in value:
                    value = {**value, "receipt": receipt}
                if kind == "application/json":
                    at = place("paths", path, method, "requestBody", "content", kind, "schema")
                    self.bodies.append({"schema": at, "value": value})
                headers = [("Idempotency-Key", f"{operation['operationId']}-{kind}-{name}".replace("/", "-"))]
                got = self.api.call(method.upper(), target, value, headers=headers, kind=kind or "application/json")
                assert str(got.status) in operation["responses"], (method, target, value, got)
                at = place("paths", path, method, "responses", str(got.status), "content", "application/json", "schema")
                self.bodies.append({"schema": at, "value": got.json})


def value_at(doc, pointer):
    for name in pointer[2:].split("/"):
        doc = doc[name]
    return doc


def test_the_examples_of_the_document_work_and_answers_have_its_form(api, db):
    db.run(["deferred", "queue", "set", "mail", "--create"])
    examples = Examples(api, document(api))
    for path, item in examples.doc["paths"].items():
        for method, operation in item.items():
            examples.run(path, method, operation)
    problem = {"schema": place("components", "schemas", "Problem")}
    for request in [("GET", "/v1/jobs/0"), ("POST", "/v1/jobs", {"fn": "e c"}), ("PUT", "/v1/jobs"), ("GET", "/v1/x")]:
        examples.bodies.append({**problem, "value": api.call(*request).json})
    examples.bodies.append({**problem, "value": api.call("GET", "/v1/jobs", token="x").json})
    assert len(examples.bodies) > 50 and wrong(db, examples.doc, examples.bodies) == ""
    # The document would refuse other bodies.
    assert wrong(db, examples.doc, [{"schema": place("components", "schemas", "NewJob"), "value": {"fm": "echo"}}])
