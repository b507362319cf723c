"""Two agents want the same part of an intent; one of them holds it, the other is told by whom."""

from openintent import OpenIntentClient
from openintent.exceptions import ConflictError

ada = OpenIntentClient(agent_id="ada")
bob = OpenIntentClient(agent_id="bob")
intent = ada.create_intent("Quarterly report")

with ada.lease(intent.id, scope="research", ttl=30) as lease:
    print(f"ada holds {lease.scope!r} with token {lease.token}")
    try:
        bob.acquire_lease(intent.id, scope="research")
    except ConflictError as refused:
        print(f"bob is refused: {refused.current_holder} holds it")
    ada.patch_state(intent.id, {"research": "done"}, lease=lease)

with bob.lease(intent.id, scope="research", ttl=30) as lease:
    print(f"bob holds {lease.scope!r} with token {lease.token}")
print(f"the intent's state is {dict(bob.get_intent(intent.id).state)}")
