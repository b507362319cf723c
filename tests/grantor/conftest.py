import pytest
from stage import Stage


@pytest.fixture
async def stage(anyio_backend):
    """A grantor that serves; stopped in the end, whatever became of it."""
    made = Stage()
    await made.grantor.start()
    yield made
    made.engine.let_go()
    await made.grantor.stop()
