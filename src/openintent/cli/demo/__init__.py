"""`openintent demo`: six agents contend for three scopes; one is killed, one hangs, and the work goes on.

Everything in it is real: a server, six processes with the SDK, `kill -9`. What is shown is what the server says;
`scene.py` makes a story and a sum of it, and checks on the way that what we promise has been kept.
"""
