"""Workflows: steps that agents do one after the other, or beside each other, as a file says.

`checking` makes a `Workflow` of a file, `plan` decides what comes next, `runner` does it.
"""
