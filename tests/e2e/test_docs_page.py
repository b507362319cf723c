"""The page at `/docs` in a real browser: it asks nobody but its own server, and what it offers works."""

import os
import re
from html import escape
from pathlib import Path

import httpx2
import pytest
from browser import CHROMIUM, browser
from http_words import running_server

from openintent.server.routes import ROUTES

FILES = Path(__file__).parents[2] / "src" / "openintent" / "server" / "docs"
READY = "document.body?.dataset.ready"
ACQUIRE = "#acquire_space_lease"

MISSING = CHROMIUM is None and not os.environ.get("CI")


@pytest.fixture(scope="module")
def url():
    with running_server() as url:
        yield url


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture
def page(tab, url):
    tab.requests.clear()
    tab.complaints.clear()
    tab.look(width=1280)
    tab.open(f"{url}/docs")
    tab.wait_for(READY)
    yield tab
    assert tab.complaints == []
    assert {each for each in tab.requests if not each.startswith((f"{url}/", "data:"))} == set()
    tab.open("about:blank")


def width_of(page):
    return page.run("document.documentElement.scrollWidth")


@pytest.mark.slow
@pytest.mark.skipif(MISSING, reason="no Chromium is installed")
def test_every_operation_is_there_and_opens(page):
    assert page.run("document.querySelectorAll('.op').length") == len(ROUTES)
    page.run("document.querySelectorAll('.op').forEach((each) => each.open = true)")
    page.wait_for(f"document.querySelectorAll('.op form').length === {len(ROUTES)}")
    assert "object HTML" not in page.run("document.body.innerText")
    page.run("document.querySelectorAll('.op .inner').forEach((each) => each.open = true)")
    page.wait_for(f"document.querySelector('{ACQUIRE} .inner .field')")
    assert "lease_held_by_you" in page.run(f"document.querySelector('{ACQUIRE}').innerText")


@pytest.mark.slow
@pytest.mark.skipif(MISSING, reason="no Chromium is installed")
def test_a_request_can_be_tried_as_the_agent_that_one_is(page):
    page.run("location.hash = '#acquire_space_lease'")
    page.wait_for(f"document.querySelector('{ACQUIRE} form')")
    page.run("document.getElementById('agent').value = 'grace'")
    page.run(f"document.querySelector('{ACQUIRE} button').click()")
    page.wait_for(f"document.querySelector('{ACQUIRE} .good')")
    assert '"agent_id": "grace"' in page.run(f"document.querySelector('{ACQUIRE} form pre').textContent")
    page.run("document.getElementById('agent').value = 'bob'")
    page.run(f"document.querySelector('{ACQUIRE} button').click()")
    page.wait_for(f"document.querySelector('{ACQUIRE} .bad')")
    assert "lease_held" in page.run(f"document.querySelector('{ACQUIRE} form pre').textContent")
    page.complaints.clear()  # the browser notes the 409, which was asked for


@pytest.mark.slow
@pytest.mark.skipif(MISSING, reason="no Chromium is installed")
def test_the_key_is_sent_and_kept_nowhere(page):
    page.run("document.getElementById('key').value = 'oi_secret'")
    page.run("document.getElementById('is_alive').open = true")
    page.wait_for("document.querySelector('#is_alive form')")
    sent = (
        "window.sent = []; const real = fetch; window.fetch = (...all) => { sent.push(all); return real(...all); }; 0"
    )
    page.run(sent)
    page.run("document.querySelector('#is_alive button').click()")
    page.wait_for("document.querySelector('#is_alive .good')")
    assert page.run("sent[0][1].headers['X-API-Key']") == "oi_secret"
    assert page.run("localStorage.length + sessionStorage.length + document.cookie.length") == 0


@pytest.mark.slow
@pytest.mark.skipif(MISSING, reason="no Chromium is installed")
def test_a_stream_shows_events_as_they_come_until_it_is_stopped(page, url):
    page.run("document.getElementById('subscribe_spaces').open = true")
    page.wait_for("document.querySelector('#subscribe_spaces form')")
    page.run("document.querySelector('#subscribe_spaces button').click()")
    page.wait_for("document.querySelector('#subscribe_spaces .good')")
    event = {"event_type": "comment", "payload": {"text": "seen-at-once"}}
    assert httpx2.post(f"{url}/api/v1/spaces/default/events", json=event).status_code == 200
    page.wait_for("document.querySelector('#subscribe_spaces form pre').textContent.includes('seen-at-once')")
    page.run("document.querySelectorAll('#subscribe_spaces button')[1].click()")
    page.wait_for("document.querySelector('#subscribe_spaces .status').textContent.includes('stopped')")


@pytest.mark.slow
@pytest.mark.skipif(MISSING, reason="no Chromium is installed")
def test_searching_leaves_only_what_has_all_the_words(page):
    find = "search.value = {}; search.dispatchEvent(new Event('input')); document.querySelectorAll('.op:not([hidden])')"
    assert page.run(f"{find.format(repr('renew lease'))}.length") < 10
    assert page.run("!document.getElementById('renew_lease').hidden")
    assert page.run(f"{find.format(repr('no-such-word'))}.length") == 0
    assert page.run("!document.getElementById('none').hidden")


@pytest.mark.slow
@pytest.mark.skipif(MISSING, reason="no Chromium is installed")
def test_it_can_be_used_with_the_keyboard_alone(page):
    key = {"type": "keyDown", "key": "/", "text": "/"}
    page.call("Input.dispatchKeyEvent", **key)
    page.wait_for("document.activeElement === document.getElementById('search')")
    page.call("Input.insertText", text="release_lease")
    page.wait_for("document.querySelectorAll('.op:not([hidden])').length === 1")
    for _ in range(3):  # the agent, the key, then the one operation
        page.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
    page.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13)
    page.wait_for("document.getElementById('release_lease').open")


@pytest.mark.slow
@pytest.mark.skipif(MISSING, reason="no Chromium is installed")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_a_phone_and_the_colours_that_one_prefers(page, dark):
    page.look(width=400, dark=dark)
    page.run(f"document.querySelector('{ACQUIRE}').open = true")
    page.wait_for(f"document.querySelector('{ACQUIRE} form')")
    assert width_of(page) <= 400
    shade = page.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]")
    assert (shade < 64) is dark


def test_without_scripts_it_still_lists_every_operation(url):
    shown = re.sub(r"<(style|script)>.*?</\1>", "", httpx2.get(f"{url}/docs").text, flags=re.DOTALL)
    assert shown.count("<summary>") == len(ROUTES)
    assert [route.says for route in ROUTES if escape(route.says) not in shown] == []
    assert '<div class="bar" id="bar" hidden>' in shown  # what only a script can do is not offered


def test_it_names_nothing_from_elsewhere_and_its_policy_lets_nothing_in(url):
    reply = httpx2.get(f"{url}/docs")
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert re.findall(r"(?:src|href|url)\s*[=(]\s*[\"']?(?:https?:)?//", reply.text) == []
    assert httpx2.get(f"{url}/docs", headers={"If-None-Match": reply.headers["etag"]}).status_code == 304
    assert httpx2.post(f"{url}/docs").status_code == 404


def test_the_first_page_leads_to_it(url):
    shown = httpx2.get(url).text
    assert 'href="/docs"' in shown
    assert 'href="/openapi.json"' in shown


def test_the_page_stays_small():
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in FILES.iterdir()) < 400
