"""The agents of the pipeline: a step's inputs are in the state of its intent, and what is returned are its outputs."""

from statistics import mean

from openintent import Intent
from openintent.agents import Agent, on_assignment


@Agent("fetcher")
class Fetcher:
    @on_assignment
    def fetch(self, intent: Intent) -> dict[str, list[float]]:
        if self.work.attempt == 1:
            raise ConnectionError(f"the station of {intent.state['station']} does not answer")
        return {"readings": [7.5, 9.0, 12.0, 10.5]}


@Agent("analyst")
class Analyst:
    @on_assignment
    def analyse(self, intent: Intent) -> dict[str, float]:
        readings = intent.state["readings"]
        return {"mean": mean(readings), "coldest": min(readings)}


@Agent("archivist")
class Archivist:
    @on_assignment
    def keep(self, intent: Intent) -> dict[str, int]:
        return {"kept": len(intent.state["readings"])}


@Agent("writer")
class Writer:
    @on_assignment
    def write(self, intent: Intent) -> dict[str, str]:
        if "coldest" in intent.state:
            return {"text": f"Frost: {intent.state['coldest']} degrees"}
        return {"text": f"{intent.state['mean']} degrees on average, of {intent.state['kept']} readings"}
