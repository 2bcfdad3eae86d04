"""OpenAI's models: a model is a profile of the caller's tenant."""

from __future__ import annotations

from fastapi import APIRouter

from herma.api.profile.v1 import profile_pb2
from herma.common.errors import NotFound
from herma.common.lines import is_line
from herma.gateway.completions.bodies import ModelBody, ModelList
from herma.gateway.routes.parts import OPENAI_REFUSALS, Reader, TheAuthority

# Profiles at a time.
_PAGE = 200

router = APIRouter(prefix="/v1/models", tags=["openai"], responses=OPENAI_REFUSALS)


@router.get("")
async def list_models(visitor: Reader, authority: TheAuthority) -> ModelList:
    """Lists your profiles as models."""
    found: list[profile_pb2.Profile] = []
    token = ""
    while True:
        page = await authority.profiles.list(visitor.caller, _PAGE, token)
        found += page.profiles
        token = page.next_page_token
        if not token:
            return ModelList(data=[_model(profile) for profile in found])


@router.get("/{model}")
async def get_model(model: str, visitor: Reader, authority: TheAuthority) -> ModelBody:
    """Reads one of your profiles as a model."""
    if len(model) > 200 or not is_line(model):
        raise NotFound("there is no such model", reason="PROFILE_NOT_FOUND")
    return _model(await authority.profiles.get(visitor.caller, model))


def _model(profile: profile_pb2.Profile) -> ModelBody:
    return ModelBody(id=profile.name, created=profile.created_at.seconds)
