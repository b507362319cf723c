"""HTTP/1.1 for the clients, no more of it than they need.

`messages` turns requests into bytes and bytes into answers. A *line* sends requests to servers and keeps its
connections for the next: `sync` and `awaited` have one each for plain `http://` and for sockets of this machine,
`library` has those for the rest, TLS and proxies, and is imported only then. What goes wrong on a line is one of two
things: `NotSent`, nothing can have arrived; `NoAnswer`, it may have. No line sends a request twice, except that one of
which nothing was sent is taken to another connection.
"""
