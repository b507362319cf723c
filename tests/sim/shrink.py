"""Makes a scenario that fails as small as it gets: fewer commands, fewer steps, the same failure."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from scenario import Fault, Job, Scenario

Fails = Callable[[Scenario], bool]
STEPS_MIN = 8


def smallest(scenario: Scenario, fails: Fails, *, tries_max: int = 400) -> Scenario:
    """The smallest scenario found that still fails, after at most so many runs."""
    search = _Search(fails, tries_max)
    scenario = search.fewer_steps(scenario)
    for _ in range(3):
        before = (len(scenario.commands), scenario.steps)
        scenario = search.calmer(scenario)
        scenario = search.fewer_commands(scenario)
        scenario = search.fewer_steps(scenario)
        if (len(scenario.commands), scenario.steps) == before:
            break
    return scenario


class _Search:
    def __init__(self, fails: Fails, tries_max: int) -> None:
        self._fails = fails
        self._tries_left = tries_max

    def _still(self, scenario: Scenario) -> bool:
        self._tries_left -= 1
        return self._tries_left >= 0 and self._fails(scenario)

    def fewer_steps(self, scenario: Scenario) -> Scenario:
        low, high = STEPS_MIN, scenario.steps
        while low < high:
            middle = (low + high) // 2
            if self._still(replace(scenario, steps=middle)):
                high = middle
            else:
                low = middle + 1
        return replace(scenario, steps=high)

    def calmer(self, scenario: Scenario) -> Scenario:
        """Without bad weather, and with a disk that works."""
        for calm in ({"loss": 0.0}, {"repeats": 0.0}, {"tail": 0.0}):
            scenario = self._if_still(scenario, replace(scenario, weather=replace(scenario.weather, **calm)))
        return self._if_still(scenario, replace(scenario, disk_fails=0.0))

    def _if_still(self, scenario: Scenario, smaller: Scenario) -> Scenario:
        return smaller if smaller != scenario and self._still(smaller) else scenario

    def fewer_commands(self, scenario: Scenario) -> Scenario:
        """Leave out halves, quarters and so on, as long as it fails without them."""
        size = len(scenario.commands)
        while size >= 1:
            for part in _parts(scenario.commands, size):
                scenario = self._if_still(scenario, scenario.without(set(part)))
            size //= 2
        return scenario


def _parts(commands: Sequence[Fault | Job], size: int) -> list[Sequence[Fault | Job]]:
    return [commands[first : first + size] for first in range(0, len(commands), size)]
