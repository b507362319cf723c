"""The description of the interface: that it has everything, that its examples are true, and that it is served."""

import json
from pathlib import Path

import httpx2
import jsonschema_rs
import pytest
import schemathesis
from http_words import running_server
from story import BY_NAME, made_equal, play

from openintent.errors import BY_CODE
from openintent.model import Limits
from openintent.server.openapi import document, path_of, plain_name
from openintent.server.openapi_answers import LINKS
from openintent.server.openapi_examples import RECORDED, STORY
from openintent.server.openapi_words import CODES, FIELDS, MORE
from openintent.server.reference import markdown
from openintent.server.routes import ROUTES

REFERENCE = Path(__file__).parents[2] / "docs" / "http-reference.md"
DOCUMENT = document(ROUTES, Limits())
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = {
    operation["operationId"]: (method, path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}


def there(thing):
    """What a reference refers to."""
    if "$ref" not in thing:
        return thing
    _, _, group, name = thing["$ref"].split("/")
    return DOCUMENT["components"][group][name]


def parameters(operation):
    return [there(each) for each in operation.get("parameters", [])]


def faults(schema, value):
    """What is wrong with the value by this schema, which may refer to shapes of the document."""
    whole = {**schema, "components": DOCUMENT["components"]}
    return [each.message for each in jsonschema_rs.Draft202012Validator(whole).iter_errors(value)]


def body_of(operation):
    return operation["requestBody"]["content"]["application/json"]


# It has everything


def test_every_route_is_described_once_under_its_own_name():
    described = sorted((name, method.upper(), path) for name, (method, path, _) in OPERATIONS.items())
    assert described == sorted((route.name, route.method, path_of(route)) for route in ROUTES)
    assert sum(map(len, DOCUMENT["paths"].values())) == len(ROUTES)
    assert all(name.isidentifier() for name in OPERATIONS)


def test_it_is_valid_openapi():
    schemathesis.openapi.from_dict(DOCUMENT).validate()
    for schema in SCHEMAS.values():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


def test_a_document_that_is_not_openapi_would_be_noticed():
    broken = {**DOCUMENT, "paths": {"/livez": {"get": {"responses": {"200": {"content": "none"}}}}}}
    with pytest.raises(jsonschema_rs.ValidationError):
        schemathesis.openapi.from_dict(broken).validate()


def test_everything_in_it_is_described():
    silent = [
        *(name for name, (_, _, op) in OPERATIONS.items() if not op["summary"] or not op["tags"]),
        *(each["name"] for _, _, op in OPERATIONS.values() for each in parameters(op) if not each["description"]),
        *(f"{name}.{field}" for name, shape in SCHEMAS.items() for field in _silent_fields(shape)),
    ]
    assert silent == []


def _silent_fields(shape):
    return [field for field, schema in shape.get("properties", {}).items() if not schema.get("description")]


def test_no_words_are_left_over():
    fields = {field for shape in SCHEMAS.values() for field in shape.get("properties", {})}
    fields |= {each["name"] for _, _, op in OPERATIONS.values() for each in parameters(op)}
    assert sorted(key for key in FIELDS if key.rpartition(".")[2] not in fields) == []
    assert set(MORE) <= {plain_name(name) for name in OPERATIONS}


def test_every_error_code_is_in_it():
    assert set(CODES) == set(BY_CODE)
    used = {code for each in DOCUMENT["components"]["responses"] for code in each.split(".")[1:]}
    assert used | {"method_not_allowed"} == set(BY_CODE)


def test_every_refusal_is_a_problem_with_a_code_of_its_own():
    for name, (_, _, operation) in OPERATIONS.items():
        for status, refusal in operation["responses"].items():
            if status == "200" or (name, status) == ("is_ready", "503"):
                continue
            schema = there(refusal)["content"]["application/json"]["schema"]
            assert there(schema) is SCHEMAS["Problem"]
            assert schema["properties"]["error"]["properties"]["code"]["enum"]


# Its bounds are the server's


def test_what_is_not_offered_is_absent():
    fields = {field for name, shape in SCHEMAS.items() if name.endswith("Body") for field in shape["properties"]}
    assert not fields & {"scopes", "permits", "max_cost"}
    assert SCHEMAS["AcquireBody"]["properties"]["mode"]["enum"] == ["exclusive"]


@pytest.mark.parametrize("route", [route for route in ROUTES if route.body], ids=lambda route: route.name)
def test_a_body_forbids_unknown_fields_where_the_decoder_does(route):
    strict = route.body.__struct_config__.forbid_unknown_fields
    assert SCHEMAS[route.body.__name__].get("additionalProperties", True) is not strict


def test_its_bounds_are_those_of_the_server_that_serves_it():
    tight = document(ROUTES, Limits(ttl_ms_max=30_000, ttl_ms_default=5_000, scope_chars_max=16))
    fields = tight["components"]["schemas"]["AcquireBody"]["properties"]
    assert (fields["ttl_seconds"]["maximum"], fields["ttl_seconds"]["default"]) == (30, 5)
    assert fields["scope"]["maxLength"] == 16


@pytest.mark.parametrize(
    ("shape", "body", "fine"),
    [
        ("AcquireBody", {"ttl_seconds": 30}, True),
        ("AcquireBody", {"ttl_seconds": 0}, False),
        ("AcquireBody", {"ttl_seconds": "30"}, False),
        ("AcquireBody", {"ttl_seconds": 30, "duration_seconds": 30}, False),
        ("AcquireBody", {"ttl_second": 30}, False),
        ("AcquireBody", {"scope": ""}, False),
        ("AcquireBody", {"scope": "a\n"}, False),
        ("AcquireBody", {"scope": "/".join("a" * 33)}, False),
        ("AcquireBody", {"scope": "/".join("a" * 32)}, True),
        ("StateBody", {}, False),
        ("StateBody", {"state": {}}, False),
        ("StateBody", {"state": {"": 1}}, False),
        ("StateBody", {"state": {"a": 1}, "patches": [{"op": "remove", "path": "a"}]}, False),
        ("StateBody", {"patches": [{"op": "remove", "path": "a"}]}, True),
        ("StateBody", {"patches": [{"op": "set", "path": "a"}]}, False),
        ("StateBody", {"patches": [{"op": "set", "path": "a//b", "value": 1}]}, False),
        ("CoordinatorBody", {"intent_id": "a", "portfolio_id": "b"}, False),
        ("CoordinatorBody", {}, False),
        ("CoordinatorBody", {"intent_id": "a", "portfolio_id": None}, True),
        ("GuardBody", {"space": "report", "scope": "a", "token": 1}, False),
        ("GuardBody", {"space": "intent:report", "scope": "a", "token": 1 << 70}, False),
        ("IntentBody", {"title": "a", "id": "-a"}, False),
    ],
)
def test_what_the_server_refuses_the_schema_refuses(shape, body, fine):
    assert (faults({"$ref": f"#/components/schemas/{shape}"}, body) == []) is fine


# Its examples are true


def test_the_story_uses_every_operation():
    streams = {route.name for route in ROUTES if route.stream}
    assert {step.route for step in STORY if not step.refused} == set(BY_NAME) - streams


def test_every_example_of_a_request_works_and_every_answer_was_given(request):
    """With `--rewrite-traces` the answers are written anew; then read the diff."""
    with running_server() as url:
        told = made_equal(play(url))
    if request.config.getoption("--rewrite-traces"):
        RECORDED.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert json.loads(RECORDED.read_text(encoding="utf-8")) == told


@pytest.mark.parametrize("name", OPERATIONS)
def test_examples_fit_their_schemas(name):
    _, _, operation = OPERATIONS[name]
    if "requestBody" in operation:
        assert faults(body_of(operation)["schema"], body_of(operation)["example"]) == []
    for each in parameters(operation):
        if "example" in each:
            assert faults(each["schema"], each["example"]) == []
    ((media, answer),) = operation["responses"]["200"]["content"].items()
    if media == "application/json" and name != "get_openapi":
        assert faults(answer["schema"], answer["example"]) == []


@pytest.mark.parametrize("code", sorted(CODES))
def test_examples_of_refusals_are_problems_with_their_code(code):
    example = DOCUMENT["components"]["examples"][code]["value"]
    assert example["error"]["code"] == code
    assert faults({"$ref": "#/components/schemas/Problem"}, example) == []


def test_links_lead_to_operations_that_take_what_they_give():
    for source in LINKS:
        _, _, operation = OPERATIONS[source]
        answer = operation["responses"]["200"]
        shown = there(answer["content"]["application/json"]["schema"])
        for link in answer["links"].values():
            _, _, target = OPERATIONS[link["operationId"]]
            taken = {each["name"] for each in parameters(target)}
            needed = {each["name"] for each in parameters(target) if each["in"] == "path"}
            given = {name.removeprefix("header.") for name in link["parameters"]}
            assert needed <= given <= taken
            assert {each.removeprefix("$response.body#/") for each in link["parameters"].values()} <= set(
                shown["properties"]
            )


# It is served


def test_it_is_served_with_a_tag_by_which_it_is_not_loaded_twice(server_url):
    with httpx2.Client(base_url=server_url) as http:
        first = http.get("/openapi.json")
        assert first.json() == DOCUMENT
        assert first.headers["content-type"] == "application/json"
        again = http.get("/openapi.json", headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert http.head("/openapi.json").headers["etag"] == first.headers["etag"]
        assert http.post("/openapi.json").status_code == 405


def test_it_is_small_enough_to_be_loaded_by_a_page():
    assert len(json.dumps(DOCUMENT, separators=(",", ":"))) < 400_000


def test_the_reference_is_up_to_date():
    """`openintent schema --markdown -o docs/http-reference.md` makes it so."""
    assert REFERENCE.read_text(encoding="utf-8") == markdown(DOCUMENT)
