"""Words for tests of batches: requests as their parts."""


def part(method, path, body=None, **more):
    return {"method": method, "path": f"/api/v1{path}", **({} if body is None else {"body": body}), **more}


def take(space, scope, **more):
    fields = {name: more.pop(name) for name in ("attempt",) if name in more}
    return part("POST", f"{space}/leases", {"scope": scope, **more}, **fields)


def statuses(answers):
    return [answer["status"] for answer in answers]
