"""OpenAI's models: a model is a profile of the caller's tenant."""

from __future__ import annotations

from fastapi import APIRouter

from herma.api.session.v1 import session_pb2
from herma.common.errors import NotFound
from herma.gateway.completions.bodies import ModelBody, ModelList
from herma.gateway.routes.parts import OPENAI_REFUSALS, Agent, TheAuthority

router = APIRouter(prefix="/v1/models", tags=["openai"], responses=OPENAI_REFUSALS)


@router.get("")
async def list_models(visitor: Agent, authority: TheAuthority) -> ModelList:
    """Lists your profiles as models."""
    found = await authority.list_profile_names(visitor.caller)
    return ModelList(data=[_model(profile) for profile in found])


@router.get("/{model}")
async def get_model(model: str, visitor: Agent, authority: TheAuthority) -> ModelBody:
    """Reads one of your profiles as a model."""
    usable = len(model) <= 200 and model.isprintable()
    found = await authority.list_profile_names(visitor.caller, model) if usable else []
    if not found:
        raise NotFound("there is no such model", reason="PROFILE_NOT_FOUND")
    return _model(found[0])


def _model(profile: session_pb2.ProfileName) -> ModelBody:
    return ModelBody(id=profile.name, created=profile.created_at.seconds)
