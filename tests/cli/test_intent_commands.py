def test_an_intent_is_made_listed_and_shown(cli, space):
    made = cli("intents", "new", "Quarterly report", "--id", space, "--state", "pages=12", "--state", "stage=draft")
    assert (made.code, made.out) == (0, f"{space}\n")
    listed = cli("intents", "ls")
    assert any(line.startswith(space) and line.endswith("Quarterly report") for line in listed.out.splitlines())
    shown = cli("intents", "show", space)
    assert "state pages  12" in shown.out
    assert 'state stage  "draft"' in shown.out


def test_with_json_it_is_what_the_server_answered(cli, space):
    made = cli("intents", "new", "A", "--id", space, "--state", 'tags=["a", {"b": null}]', "--json").json
    assert made["state"] == {"tags": ["a", {"b": None}]}
    assert cli("intents", "show", space, "--json").json == made
    assert made in cli("intents", "ls", "--json").json["intents"]


def test_intents_alone_lists_them(cli, space):
    cli("intents", "new", "A", "--id", space)
    assert space in cli("intents").out


def test_repeating_it_gives_the_same_intent_and_other_content_is_refused(cli, space):
    assert cli("intents", "new", "A", "--id", space).code == 0
    assert cli("intents", "new", "A", "--id", space).code == 0
    refused = cli("intents", "new", "B", "--id", space)
    assert refused.code == 1
    assert "another body" in refused.err


def test_state_that_was_meant_to_be_json_must_be(cli):
    refused = cli("intents", "new", "A", "--state", 'a={"b": 1')
    assert refused.code == 2
    assert "--state a: not JSON" in refused.err


def test_an_unknown_intent_is_said(cli):
    refused = cli("intents", "show", "no-such-intent")
    assert (refused.code, refused.out) == (1, "")
    assert "Intent not found" in refused.err


def test_leases_of_an_intent(cli, space):
    cli("intents", "new", "A", "--id", space)
    got = cli("leases", "acquire", "part/**", "--intent", space, "--json").json
    assert got["intent_id"] == space
    assert [each["id"] for each in cli("leases", "ls", "--intent", space, "--json").json["leases"]] == [got["id"]]
