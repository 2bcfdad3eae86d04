"""The measurements: each module has `async def measure(bench) -> list[Result]`."""
