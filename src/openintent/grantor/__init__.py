"""The one writer: it owns the ledger, makes its changes durable, and lets replies leave only then.

Promised: a reply leaves after the commit it depends on; a failed commit ends the term, and nothing that saw its
changes is acknowledged; replies whose commit's outcome is unknown are kept until it is known. Not promised: that a
request is carried out because it arrived. Whoever gets no answer does not know, and repeats its attempt.
"""
