"""A database file served from within the programs that use it: no server to start, and the same promises.

Each program is a *member*, with one thread for each file. The member that has the file's lock is the grantor: it runs
our own server, on a socket beside the file that only this user can open. The others connect to it. When its process
ends, cleanly or not, the operating system gives the lock to the next one that asks. Where `openintent serve` has the
file open, that server is used.

Promised: all that the server promises, over the end of any of the programs. Not promised: progress while the process
of the grantor is stopped (SIGSTOP) or lets no other thread run, since it keeps the lock; and nothing across machines:
the file must be on a disk of this one. The authority is the lock; the socket only tells where to ask.
"""

from openintent.embedded.membership import join, stepped_aside

__all__ = ["join", "stepped_aside"]
