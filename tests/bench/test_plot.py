"""Plots are drawings that any reader of XML accepts, with what they were given in them."""

from xml.etree import ElementTree as ET

import plot
import pytest

SVG = "{http://www.w3.org/2000/svg}"


def drawn(text):
    root = ET.fromstring(text)  # noqa: S314  # our own
    assert root.tag == f"{SVG}svg"
    return root


def words(root):
    return [each.text for each in root.iter(f"{SVG}text")]


def test_every_series_is_a_line_with_its_points_and_its_name():
    series = {"ours": [(1, 10), (32, 200), (256, 900)], "<theirs> & co": [(1, 5), (256, 80)]}
    root = drawn(plot.lines("Rates", series, x_label="connections", y_label="per second"))
    assert [len(each.get("points").split()) for each in root.iter(f"{SVG}polyline")] == [3, 2]
    assert len(list(root.iter(f"{SVG}circle"))) == 5
    assert {"Rates", "connections", "per second", "ours", "<theirs> & co", "1", "32", "256"} <= set(words(root))


@pytest.mark.parametrize("log_y", [True, False])
@pytest.mark.parametrize("points", [[(1, 0)], [(0, 5), (1, 5)], [(100, 1e-3), (1e6, 1e6)]])
def test_what_is_drawn_stays_on_the_page(points, log_y):
    root = drawn(plot.lines("x", {"a": points}, x_label="x", y_label="y", log_y=log_y))
    for dot in root.iter(f"{SVG}circle"):
        assert 0 <= float(dot.get("cx")) <= plot.WIDTH
        assert 0 <= float(dot.get("cy")) <= plot.HEIGHT


def test_more_stands_higher():
    root = drawn(plot.lines("x", {"a": [(1, 1), (2, 100)]}, x_label="x", y_label="y", log_y=True))
    low, high = (float(dot.get("cy")) for dot in root.iter(f"{SVG}circle"))
    assert high < low


def test_nothing_cannot_be_drawn():
    with pytest.raises(ValueError, match="nothing to draw"):
        plot.lines("x", {}, x_label="x", y_label="y")


def test_every_value_is_a_bar_as_high_as_it_is_large():
    root = drawn(plot.bars("Times", {"p50\nquiet": 10.0, "p99\nquiet": 40.0}, y_label="ms"))
    low, high = (float(bar.get("height")) for bar in root.iter(f"{SVG}rect"))
    assert high == pytest.approx(4 * low, rel=0.01)
    assert {"Times", "ms", "p50", "p99", "quiet", "10", "40"} <= set(words(root))
