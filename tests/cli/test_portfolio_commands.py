import pytest


@pytest.fixture
def intent(cli, space):
    assert cli("intents", "new", "Quarterly report", "--id", space).code == 0
    return space


@pytest.fixture
def portfolio(cli, space):
    made = cli(
        "portfolios", "create", "Q3 launch", "--id", f"p-{space}", "--metadata", "floor=2", "--description", "all"
    )
    assert (made.code, made.out) == (0, f"p-{space}\n")
    return f"p-{space}"


def test_a_portfolio_is_listed_by_the_command_alone(cli, portfolio):
    header, *rows = cli("portfolios").out.splitlines()
    assert header.split() == ["ID", "STATUS", "CREATED", "BY", "UPDATED", "NAME"]
    assert any(row.startswith(portfolio) and row.endswith("Q3 launch") for row in rows)
    assert portfolio in [each["id"] for each in cli("portfolios", "--json").json]


def test_intents_are_put_in_and_taken_out(cli, portfolio, intent):
    added = cli("portfolios", "add", portfolio, intent, "--role", "primary", "--priority", 5)
    assert (added.code, added.out) == (0, f"{intent} is in {portfolio} as primary\n")
    shown = cli("portfolios", "show", portfolio).out
    assert "intents      1 (1 draft)" in shown
    assert shown.splitlines()[-1].split() == [intent, "draft", "primary", "5", "Quarterly", "report"]
    removed = cli("portfolios", "rm", portfolio, intent)
    assert (removed.code, removed.out) == (0, f"{intent} is no longer in {portfolio}\n")
    assert "none yet" in cli("portfolios", "show", portfolio).out
    assert cli("portfolios", "rm", portfolio, intent).code == 1


def test_who_coordinates_is_shown(cli, portfolio, rival):
    lease = rival.acquire_coordinator_lease(portfolio, ttl_seconds=30)
    shown = cli("portfolios", "show", portfolio)
    assert f"coordinator  rival with token {lease.token}, 2" in shown.out
    told = cli("portfolios", "show", portfolio, "--json").json
    assert (told["portfolio"]["metadata"], told["coordinators"][0]["id"]) == ({"floor": 2}, lease.id)
    assert told["aggregate_status"]["total"] == 0


def test_a_coordinators_lease_is_among_the_leases(cli, portfolio, rival):
    lease = rival.acquire_coordinator_lease(portfolio)
    assert lease.id in cli("leases", "ls", "--space", lease.space).out
    assert [each["id"] for each in cli("leases", "watch", "--once", "--json").json["leases"] if each["id"] == lease.id]


def test_the_status_is_changed(cli, portfolio):
    done = cli("portfolios", "status", portfolio, "completed")
    assert (done.code, done.out) == (0, f"{portfolio} is completed\n")
    assert cli("portfolios", "status", portfolio, "half").code == 2


@pytest.mark.parametrize("words", [("show", "nowhere"), ("add", "nowhere", "nothing"), ("status", "nowhere", "active")])
def test_what_is_not_there_is_said(cli, words):
    refused = cli("portfolios", *words)
    assert (refused.code, refused.out) == (1, "")
    assert "not found" in refused.err


def test_repeating_it_gives_the_same_portfolio(cli, portfolio):
    again = cli("portfolios", "create", "Q3 launch", "--id", portfolio, "--metadata", "floor=2", "--description", "all")
    assert again.out == f"{portfolio}\n"
    assert cli("portfolios", "create", "Q4", "--id", portfolio).code == 1
