"""HTTP in front of the grantor.

Two lanes, one set of handlers. The hot lane (`hotlane.py`) answers small requests straight from uvicorn's protocol
class; everything else goes through ASGI (`app.py`). Both find their handler in `routing.py` by the raw path and speak
to it through an `Exchange`, so they cannot differ in what they answer.
"""
