"""Everything that is measured, in the order of the report."""

from suite import Workload

from workloads import (
    batch,
    contend,
    cycle,
    engines,
    expiry,
    failover,
    fleet,
    growth,
    heartbeat,
    held,
    overload,
    renew,
    sdk,
    state,
    streams,
    takeover,
)

__all__ = ["ALL"]

_LISTED: list[Workload] = [
    cycle.WORKLOAD,
    batch.WORKLOAD,
    renew.WORKLOAD,
    engines.WORKLOAD,
    heartbeat.WORKLOAD,
    contend.WORKLOAD,
    state.WORKLOAD,
    fleet.WORKLOAD,
    streams.WORKLOAD,
    held.MEMORY,
    held.STARTUP,
    takeover.WORKLOAD,
    failover.WORKLOAD,
    sdk.WORKLOAD,
    growth.WORKLOAD,
    expiry.WORKLOAD,
    overload.WORKLOAD,
]
ALL = {workload.name: workload for workload in _LISTED}
