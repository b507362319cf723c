import json

from commandline import CommandLine

from openintent.model import Limits
from openintent.server.openapi import document
from openintent.server.routes import ROUTES

nobody = CommandLine("http://127.0.0.1:9")  # it needs no server


def test_it_prints_the_description_without_a_server():
    printed = nobody("schema")
    assert (printed.code, printed.err) == (0, "")
    assert printed.json == json.loads(json.dumps(document(ROUTES, Limits())))


def test_it_writes_a_file(tmp_path):
    written = nobody("schema", "-o", tmp_path / "openapi.json")
    assert (written.code, written.out) == (0, "")
    assert json.loads((tmp_path / "openapi.json").read_text())["openapi"] == "3.1.0"


def test_it_prints_a_page_for_people():
    printed = nobody("schema", "--markdown")
    assert printed.code == 0
    assert printed.out.startswith("# HTTP reference\n")


def test_a_file_that_cannot_be_written_is_said(tmp_path):
    refused = nobody("schema", "-o", tmp_path / "no" / "folder.json")
    assert (refused.code, refused.out) == (1, "")
    assert "No such file or directory" in refused.err
