"""`herma whoami`: who you are."""

from __future__ import annotations

from herma.cli.client import ApiClient, find_platform
from herma.cli.output import Format, Output, moment, say, say_json


def who_am_i(output: Output = Format.TEXT) -> None:
    """Show who you are and what you may."""
    found = ApiClient(*find_platform()).get("/v1/whoami")
    if output == Format.JSON:
        say_json(found)
        return
    principal, key = found["principal"], found["key"]
    name = f" ({principal['name']})" if principal["name"] else ""
    say(f"tenant     {found['tenant']['name']}  {found['tenant']['id']}")
    say(f"principal  {principal['subject']}{name}  {principal['id']}")
    say(f"issuer     {principal['issuer']}")
    say(f"role       {principal['role']}")
    if key is not None:
        say(f"key        {key['prefix']}  {key['id']}  expires {moment(key['expires_at'])}")
    say(f"scopes     {' '.join(found['scopes'])}")
