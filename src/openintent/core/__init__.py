"""The rules, pure: no clock, no I/O, no randomness, no logging, no async.

Time and ids come in with the command; what must be stored and who must be answered come out as values. The same
ledger runs in the server, in the simulator and in the oracle that judges histories.
"""
