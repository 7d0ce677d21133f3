"""Worlds to move in and the movements made there; importing it registers the Gymnasium environment."""

from saccade.worlds.fetch import ENVIRONMENT, Fetch, FetchPickAndPlace, State
from saccade.worlds.scripted import EVENTS, KINDS, SPLITS, Generated, generate

__all__ = ["ENVIRONMENT", "EVENTS", "KINDS", "SPLITS", "Fetch", "FetchPickAndPlace", "Generated", "State", "generate"]
